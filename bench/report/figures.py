"""Measured figures in README.md and in the users' pages.

A page has a figure between two comments, <!--measured:NAME--> and <!--/measured-->.  The
text between them comes from the function of FIGURES with this name.  unknown() finds
figures outside of these comments.
"""
import re
import statistics

import bits
import hdbscan
import models
import on_cpu
import over_rows
import throughput
from chosen import LARGE, NESTED_LOOP, OURS, OURS_ON_CPU, S, dimensions, largest, measured, median, one, peers, runs, timed
from page import TOP, Results, cpu_name, digits, paper_set, published, table

LEFT_OUT = {"development.md"}   # of doc/; it is for developers

PEERS = {"FAISS flat, CPU": "FAISS", "scikit-learn brute force": "scikit-learn"}
EVERY_PEER = (NESTED_LOOP, *PEERS)

# Figures that are not measurements of fasted: (page, text).
NOT_MEASURED = {
    ("README.md", "3 minutes"),                     # of make demo
    ("README.md", "25 minutes"),                    # of make check
    ("administration.md", "100 ms"),                # interval at which a join checks for a cancellation
    ("limits.md", "100 ms"),
    ("limits.md", "eight times"),                   # of another setting
}

WORDS = "two|three|four|five|six|seven|eight|nine|ten"
NUMBER = rf"(?:\d[\d.,]*|\b(?:{WORDS}))"
FIGURE = re.compile(rf"{NUMBER}(?: (?:to|and|or) {NUMBER})?\s?(?:[mµun]?s|(?:milli)?seconds?|minutes?|hours?|times|[TG]FLOPS)\b|half a second", re.I)
BLOCK = re.compile(r"<!--measured:([a-z-]+)-->(.*?)<!--/measured-->", re.S)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.S | re.M)


def two(value):
    return digits(value, 2)


def to(values):
    """Returns for example "1.5 to 3"."""
    return f"{two(min(values))} to {two(max(values))}"


def compared_shape(measurements, ours):
    """Returns the (data, rows) at which most of the peers ran beside our join: of several, the largest number of rows."""
    def peers_at(shape):
        return sum(name in EVERY_PEER for name, _ in peers(measurements, *shape))
    here = [(m["data"], m["rows"]) for m in timed(measurements, method=ours, output="rows", selectivity=S)]
    return max(here, key=lambda shape: (peers_at(shape), shape[1]), default=None)


def compared_line(machine, ours, hardware):
    """Returns a line of the table: our join at one shape beside other programs; [] without measurements."""
    measurements = measured(machine)
    shape = compared_shape(measurements, ours)
    if shape is None:
        return []
    data, rows = shape
    key = {"data": data, "rows": rows, "selectivity": S}
    count, sent = (one(measurements, method=ours, output=output, **key) for output in ("count", "rows"))
    here = dict(peers(measurements, data, rows))
    nested = f"{two(median(here[NESTED_LOOP]))} s" if NESTED_LOOP in here else ""
    others = ", ".join(f"{name} {two(median(here[method]))} s" for method, name in PEERS.items() if method in here)
    return [[f"{rows} x {dimensions(sent)}", hardware, f"{two(median(count or sent))} s ({two(median(sent))} s)", nested, others]]


def paper_lines(results):
    """Returns a line for each of the paper's sizes."""
    lines = []
    for m in timed(largest(measured(results)), method=OURS, output="count", selectivity=S):
        paper = published("real_world_seconds", paper_set(m["rows"], m["dimensions"]), S)
        if paper and paper > 1:
            work = 2 * m["rows"] ** 2 * m["dimensions"]
            lines.append((work, [f"{m['rows']} x {dimensions(m)}", "NVIDIA H200", f"{two(median(m))} s", "",
                                 f"FaSTED paper, A100, other data: {two(paper)} s"]))
    return [line for _, line in sorted(lines)]


def large_lines(results):
    """Returns lines for the tables of LARGE rows or more that our CPU engine joined, by it and, if the paper has no such table, on the GPU."""
    measurements = timed(measured(results), output="count", selectivity=S)
    lines = []
    for on_the_cpu in sorted(timed(measurements, method=OURS_ON_CPU), key=lambda m: m["dimensions"]):
        key = {"data": on_the_cpu["data"], "rows": on_the_cpu["rows"]}
        on_the_gpu = None if published("real_world_seconds", paper_set(key["rows"], on_the_cpu["dimensions"]), S) else one(measurements, method=OURS, **key)
        if key["rows"] >= LARGE:
            lines += [[f"{m['rows']} x {dimensions(m)}", hardware, f"{two(median(m))} s", "", ""]
                      for hardware, m in ((cpu_name(runs(results)[-1]["environment"]), on_the_cpu), ("NVIDIA H200", on_the_gpu)) if m]
    return lines


def how_fast(results):
    newest = on_cpu.newest(results)
    lines = compared_line(newest, OURS_ON_CPU, cpu_name(on_cpu.environment(newest))) if newest else []
    lines += compared_line(results, OURS_ON_CPU, cpu_name(runs(results)[-1]["environment"]))
    lines += compared_line(results, OURS, "NVIDIA H200") + large_lines(results) + paper_lines(results) + bits.in_short(results) + [kept_line()]
    head = ["rows x dimensions", "hardware", "fasted", "pgvector's nested loop", "other programs"]
    text = ["", "", table(head, lines), ""]
    if any("in line" in line[0] for line in lines):
        text += ["In line: the vectors were [stored in line](doc/limits.md#faster-reading).", ""]
    if over_rows.methods(results):
        text += [f"![{over_rows.PICTURE_TEXT}](bench/results/{results.machine}/over_rows.svg)", ""]
    return "\n".join([*text, first_call(results), ""])


def kept_line():
    """Returns a line for the largest table from which SemHash removed near-duplicates beside fasted_keep."""
    found = Results("amd-epyc-2-cores")["groups"]
    theirs = max(timed(found["measurements"], method="SemHash"), key=lambda m: m["rows"])
    ours = one(found["measurements"], method="keep_one window", data=theirs["data"], rows=theirs["rows"], metric=theirs["metric"])
    return [f"{theirs['rows']} x {theirs['dimensions']}, rows to keep at cosine {theirs['eps']:.2g}", cpu_name(found["environment"]),
            f"{two(median(ours))} s", "", f"SemHash {two(median(theirs))} s, approximate"]


def first_call(results):
    counts = timed(largest(measured(results)), method=OURS, output="count", selectivity=S)
    later = [statistics.median(m["seconds"]["first"]) - median(m) for m in counts if m["seconds"].get("warm")]
    rates = throughput.beside_cublas(results["throughput"]["measurements"])
    return (f"The first GPU join of a session takes {digits(min(later), 1)} to {digits(max(later), 1)} s longer. On the GPU, the join of a million rows, including the "
            f"exact recheck, runs at {to(rates)} times the rate of cuBLAS's FP16 matrix product of the same rows. "
            "Both rates count 2 n² d operations, but the join computes each pair once, in INT8.")


def dbscan(results):
    m = max((m for m in results["groups"]["measurements"] if m["method"] == "dbscan"), key=lambda m: -m["dimensions"])
    return f"{two(statistics.median(m['seconds']['warm']))} s for {m['rows']} x {m['dimensions']}"


def hierarchy(results):
    """Returns the time of HDBSCAN of the first table that was measured on the GPU."""
    (_, rows, dimensions), methods = next(iter(hdbscan.cases(results["hdbscan"]["measurements"]).items()))
    return f"{two(hdbscan.seconds(methods['fasted_hdbscan']))} s for {rows} x {dimensions}"


def gpu_work(results):
    """Returns the seconds of 10^15 operations in the largest join."""
    counts = timed(largest(measured(results)), method=OURS, output="count", selectivity=S)
    m = max(counts, key=lambda m: m["rows"] ** 2 * m["dimensions"])
    return f"{digits(1e15 * median(m) / (2 * m['rows'] ** 2 * m['dimensions']), 1)} s"


def two_gpus(results):
    """Returns the last count over 10000000 x 128 of devices.md, by one GPU and by two."""
    page = (results.folder.parent / "two-nvidia-h200/devices.md").read_text(encoding="utf-8")
    line = [line for line in page.splitlines() if line.startswith("|") and "10000000 x 128" in line][-1]
    alone, both = (float(cell) for cell in line.split("|")[-4:-2])
    return f"{two(alone)} s with one NVIDIA H200 and {two(both)} s with two"


FIGURES = {"how-fast": how_fast, "dbscan": dbscan, "hdbscan": hierarchy, "gpu-work": gpu_work, "two-gpus": two_gpus,
           "models": models.distances, "model-pairs": models.pairs}


def paths(top=TOP):
    return [top / "README.md", *sorted(path for path in (top / "doc").glob("*.md") if path.name not in LEFT_OUT)]


def pages(results):
    """Returns {path: text} of the pages that have measured figures, with the figures of the results."""
    found = {}
    for path in paths():
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            found[path] = BLOCK.sub(lambda block: f"<!--measured:{block[1]}-->{FIGURES[block[1]](results)}<!--/measured-->", text)
    return found


def blank(found):
    """Returns as many lines without text."""
    return "\n" * found.group().count("\n")


def unknown(top):
    """Returns a line for each figure of the users' pages that neither the results nor NOT_MEASURED contain."""
    lines = []
    for path in paths(top):
        text = CODE.sub(blank, BLOCK.sub(blank, path.read_text(encoding="utf-8")))
        for figure in FIGURE.finditer(text):
            if not any(name == path.name and figure.group().endswith(known) for name, known in NOT_MEASURED):
                number = text[:figure.start()].count("\n") + 1
                lines.append(f"{path.relative_to(top)}:{number}: {figure.group()!r} does not come from bench/results: see bench/report/figures.py")
    return lines
