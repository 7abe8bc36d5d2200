"""End to end on data sets, and beside other programs (section 4.5 of the paper)."""
import statistics

from chosen import (CHECK, FEW_ROWS, FILES, GEMM, HNSW, LARGE, NESTED_LOOP, NOT_SHOWN, OURS, OURS_ON_CPU, S, largest, measured, median, one,
                    peers, ratios, runs, shapes, timed, values)
from page import COLOURS, TEXT_COLOUR, cpu_name, digits, figure, in_line, machines_of, paper_set, published, save, table, tflops

# the columns of the table of other programs
METHODS = {OURS: "fasted, GPU", OURS_ON_CPU: "fasted, CPU", "FAISS flat, CPU": "FAISS", "export, FAISS flat": "export, FAISS",
           "scikit-learn brute force": "scikit-learn", "PyTorch FP16-32": "PyTorch FP16-32", "PyTorch FP32": "PyTorch FP32",
           "export, PyTorch FP32": "export, PyTorch FP32", NESTED_LOOP: "pgvector nested loop", HNSW: "pgvector HNSW"}

PARTS = {"read": "reading and staging", "wait": "waiting for the engine", "filter": "filter on the GPU", "recheck": "recheck on the GPU"}


def part(m, name):
    parts = m.get("parts") or {}
    return digits({**parts.get("session_seconds", {}), **parts.get("engine_seconds", {})}.get(name))


def ours_table(measurements, ours=OURS):
    rows = []
    for m in timed(largest(measurements), method=ours, output="count", selectivity=S):
        later = m["seconds"]["warm"]
        paper = published("real_world_seconds", paper_set(m["rows"], m["dimensions"]), S)
        rows.append([m["data"], m["rows"], m["dimensions"], digits(m["eps"]), m.get("pairs", ""), digits(statistics.median(later)),
                     digits(tflops(m["rows"], m["dimensions"], later)), digits(paper)])
    return table(["data", "n", "d", "eps", "pairs", "s", "TFLOPS", "paper, A100, s"], rows)


def other_selectivities(measurements, ours):
    """Returns a sentence about the other values of S; "" without any."""
    found = timed(largest(measurements), method=ours, output="count")
    at = {(m["data"], m["rows"], m["selectivity"]): median(m) for m in found}
    times = [seconds / at[data, rows, S] for (data, rows, s), seconds in at.items() if s != S and (data, rows, S) in at]
    values = " and ".join(str(s) for s in sorted({s for _, _, s in at} - {S}))
    return f"With S = {values}, the count takes {min(times):.2f} to {max(times):.2f} times as long." if times else ""


def parts_table(measurements):
    rows = []
    for m in timed(largest(measurements), method=OURS, output="count", selectivity=S):
        if m.get("parts") and m["rows"] >= LARGE:
            rows.append([m["data"], m["rows"], digits(m["parts"]["total"]), *(part(m, name) for name in PARTS)])
    return table(["data", "n", "total", *PARTS.values()], rows)


def beside(measurements, ours=OURS):
    """Returns two tables in Markdown: seconds of each method at each shape, then a summary of each method."""
    found = ratios(measurements, ours)
    rows = []
    for data, count in shapes(measurements):
        here = dict(peers(measurements, data, count))
        if any((data, count) in times for times in found.values()):
            rows.append([data, count, *(digits(median(here[name])) if name in here else "" for name in METHODS)])
    every = [[METHODS[name], f"{digits(min(times.values()))} to {digits(max(times.values()))}", *errors(measurements, name, times)]
             for name, times in sorted(found.items(), key=lambda one: list(METHODS).index(one[0]))]
    return "\n".join([table(["data", "n", *METHODS.values()], rows), "",
                      table(["method", "time / time of fasted", "pairs", "missed", "spurious"], every)])


def errors(measurements, method, places):
    """Returns the sums of exact, missed and spurious pairs of a method over these shapes."""
    here = [one(measurements, data=data, rows=rows, method=method, output="rows", selectivity=S) for data, rows in places]
    here = [m for m in here if "missed" in m]
    return [sum(m["pairs"] + m["missed"] - m["spurious"] for m in here), *(sum(m[error] for m in here) for error in ("missed", "spurious"))]


def gemm_table(measurements):
    """Returns a table of the fastest form of the products, at the largest number of rows of each data set."""
    rows = []
    found = shapes(timed(measurements, method=GEMM))
    for data, count in ((data, max(n for other, n in found if other == data)) for data in dict.fromkeys(data for data, _ in found)):
        best = min(timed(measurements, method=GEMM, data=data, rows=count), key=median)
        ours = one(measurements, data=data, rows=count, method=OURS, output="count", selectivity=S)
        device = ((ours or {}).get("parts") or {}).get("engine_seconds", {}).get("device")
        rows.append([data, count, digits(median(best)), digits(device), digits(median(best) / device if device else None)])
    return table(["data", "n", "products, s", "our join on the GPU, s", "products / join"], rows)


def without_times(measurements):
    """Returns a list of the methods that did not run at S, with the reason."""
    def title(m):
        named = [f"{name} = {m[key]}" for key, name in (("rows", "n"), ("selectivity", "S")) if key in m]
        return ", ".join([m["data"], *named, m["method"], *([m["output"]] if "output" in m else [])])
    return [f"- {title(m)}: {m['reason']}" for m in measurements
            if "reason" in m and m["method"] not in NOT_SHOWN and m.get("selectivity", S) == S]


def not_measured(measurements):
    found = without_times(measurements)
    return ["Not measured:", "", *found, ""] if found else []


def when(results):
    """Returns a sentence with the revision and the day of each result file."""
    named = {name: results[name]["environment"] for name in FILES if results[name]}
    return "Revisions: " + ", ".join(f"{env['revision']} of {env['date']} (`{name}.json`{', vectors stored in line' if in_line(env) else ''})"
                                    for name, env in named.items()) + "."


def checked(measurements):
    checks = [m for m in measurements if m["method"] == CHECK]
    wrong = [m for m in checks if m["missed"] or m["spurious"]]
    return (f"A brute-force comparison in FP64 by numpy checked all pairs of {sum(m['checked_rows'] for m in checks)} rows, "
            f"{sum(m['checked_pairs'] for m in checks)} pairs in all. "
            + ("No pair was missed, and none was spurious." if not wrong else f"**The result was wrong in {len(wrong)} cases.**"))


def picture(results):
    return results.picture("real_world", "Time of other programs divided by the time of fasted, for each data set")


def section(results):
    measurements = measured(results)
    if not measurements:
        return None
    others = other_selectivities(measurements, OURS)
    text = ["## End to end, inside PostgreSQL", "",
            "`SELECT count(*)` over the join of a table in the page cache, from the statement to its result, in later calls. The paper's times are those of its "
            f"real data sets of the same size on an A100. [Our data sets](datasets/README.md) are others. {when(results)}", "",
            ours_table(measurements), "", *([others, ""] if others else []),
            "Parts of one later call, from EXPLAIN ANALYZE, in seconds. The session reads the table and then waits for the engine. The GPU works "
            "during both.", "", parts_table(measurements), "", checked(measurements), "",
            "## Beside other programs", "",
            "Seconds until all pairs are in the memory of the client, for the same rows and the same eps. A method whose predicted time was too "
            "long ran on fewer rows. PyTorch runs on the GPU. FAISS, scikit-learn and pgvector run on all CPU cores. PyTorch, FAISS and "
            "scikit-learn start with the rows in the client's memory. \"Export\" includes COPY out of PostgreSQL, and COPY of the pairs into a "
            f"table. [Peers](peers/README.md) describes each method. Smaller tables than {FEW_ROWS} rows are in the result files.",
            "", beside(measurements), "",
            "With more neighbours the ratios are smaller, because sending the pairs takes a larger part of our time. Missed and spurious "
            "pairs are counted against the exact result, which fasted returns.", ""]
    if timed(measurements, method=GEMM):
        text += ["The FP16 product of all rows with all rows by cuBLAS, without comparing or storing distances, beside our whole join on the GPU:",
                 "", gemm_table(measurements), ""]
    return "\n".join([*text, *not_measured(measurements), where_we_lose(results)])


def headlines(results):
    """Yields the times of the paper's sizes, and the ratio of the round trip through a client."""
    for name, n, d, times in counted(results):
        paper = published("real_world_seconds", paper_set(n, d), S)
        if n >= LARGE and paper:
            yield (f"- The join of {n} x {d} ({name}) takes {digits(statistics.median(times['warm']))} s on an NVIDIA H200. The paper's program took "
                   f"{digits(paper)} s on an A100, for another data set of this size.")
    found = ratios(measured(results))
    times = values({name: here for name, here in found.items() if name.startswith("export")})
    if times:
        yield (f"- With all pairs sent to the client, exporting the rows to PyTorch or FAISS and loading the pairs takes {digits(min(times))} to "
               f"{digits(max(times))} times as long as fasted.")


# Cases that no comparison of this page shows.
REMARKS = (
    "- For small tables, the fixed costs of a statement dominate: planning, starting workers, and the GPU's initialization in the first call.",
    "- For one vector, or for a few, a search with the [exact index](../doc/index.md) is faster than a join, which reads the whole table. If neighbours may be missing, HNSW is faster still.",
    "- If vectors rarely change and missing neighbours are acceptable, an approximate index may be faster.",
    "- For isotropic rows of many dimensions the INT8 filter returns many false candidates. `fasted.filter = auto` then uses FP16, which is slower.",
)


def losses(results):
    """Returns a list of the methods that were faster than our join at some shapes."""
    lines = []
    for name, here in ratios(measured(results)).items():
        faster = {shape: value for shape, value in here.items() if value < 1}
        if faster:
            where = ", ".join(f"{data} {count} ({digits(value, 2)})" for (data, count), value in faster.items())
            lines.append(f"- {METHODS[name]} was faster at {len(faster)} of {len(here)} shapes; in brackets, its time divided by ours: {where}.")
    return lines


def where_we_lose(results):
    found = losses(results)
    lines = ["## Where we lose", ""]
    if found:
        lines += ["PyTorch on the same GPU is faster if the rows are already in the client's memory and the pairs are needed there. Then most "
                  "of our time is spent on sending the pairs out of PostgreSQL.", "", *found]
    return "\n".join([*lines, *REMARKS, ""])


def counted(results):
    """Yields (name, n, d, {"first": [seconds, ...], "warm": ...}) of the counts at S of the largest shapes."""
    for m in timed(largest(measured(results)), method=OURS, output="count", selectivity=S):
        yield m["data"], m["rows"], m["dimensions"], m["seconds"]


def bars(axis, measurements, ours):
    """Draws the ratio of each method at the largest number of rows of each data set."""
    found = {name: {data: here[data, rows] for data, rows in sorted(here, key=lambda shape: shape[1])}
             for name, here in ratios(measurements, ours).items()}
    data_sets = list(dict.fromkeys(data for here in found.values() for data in here))
    names = sorted(found, key=lambda name: statistics.median(found[name].values()))
    height = 0.8 / len(data_sets)
    for number, data in enumerate(data_sets):
        places = [(place - 0.4 + (number + 0.5) * height, found[name][data]) for place, name in enumerate(names) if data in found[name]]
        axis.barh([y for y, _ in places], [times - 1 for _, times in places], height, left=1, label=data, color=COLOURS[number])
    axis.axvline(1, color=TEXT_COLOUR, linewidth=1)
    axis.set(xscale="log", xlabel="time / time of fasted")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_yticks(range(len(names)), [METHODS[name] for name in names], fontsize=8)
    axis.legend(fontsize=7)


def plot(results):
    """Draws the machine with a GPU and the machine without one whose measurements are the newest."""
    machines = machines_of(results, *FILES)
    panels = [machine for machine in machines if machine.machine == results.machine]
    panels += sorted((machine for machine in machines if machine.machine != results.machine),
                     key=lambda machine: max(run["environment"]["date"] for run in runs(machine)))[-1:]
    if not panels:
        return
    fig, axes = figure(len(panels), width=5)
    for axis, machine in zip(axes[0], panels):
        env = runs(machine)[-1]["environment"]
        bars(axis, measured(machine), OURS if env.get("gpu") else OURS_ON_CPU)
        axis.set_title(", ".join(name for name in (env.get("gpu"), cpu_name(env)) if name))
    fig.tight_layout()
    save(fig, results.plot("real_world"))
