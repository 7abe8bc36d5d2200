"""End to end on data sets, and beside what people use (section 4.5 of the paper)."""
import statistics

from chosen import CHECK, GEMM, LARGE, OURS, largest, measured, one, peers, ratio, selectivities, shapes, timed, usual
from page import digits, figure, measured_at, paper_set, published, save, seconds, table, tflops

PARTS = ("read", "wait", "output", "prepare", "filter", "recheck", "device")
S = 64                          # of what is shown once


def part(m, name):
    parts = m.get("parts") or {}
    return digits({**parts.get("session_seconds", {}), **parts.get("engine_seconds", {})}.get(name))


def ours_table(measurements, ours=OURS):
    rows = []
    for m in timed(largest(measurements), method=ours, output="count"):
        first, warm = m["seconds"]["first"], m["seconds"]["warm"]
        paper = published("real_world_seconds", paper_set(m["rows"], m["dimensions"]), m["selectivity"])
        rows.append([m["data"], m["rows"], m["dimensions"], m["selectivity"], digits(m["eps"], 5), m.get("pairs", ""), seconds(first),
                     seconds(warm), digits(tflops(m["rows"], m["dimensions"], warm)),
                     digits(paper), (m.get("parts") or {}).get("distance_filter", "")])
    return table(["data", "n", "d", "S", "eps", "pairs", "first call, s", "warm, s", "warm, TFLOPS", "paper, A100, s", "filter"], rows)


def parts_table(measurements):
    rows = []
    for m in timed(largest(measurements), method=OURS, selectivity=S):
        if m.get("parts"):
            rows.append([m["data"], m["rows"], m["output"], digits(m["parts"]["total"]), *(part(m, name) for name in PARTS)])
    return table(["data", "n", "output", "total, s", "reading and staging", "waiting for the engine", "output", "quantising",
                  "filter", "recheck", "all on the GPU"], rows)


def over_s(cells):
    """Cells of one S after the other."""
    return " / ".join("–" if cell in ("", None) else str(cell) for cell in cells)


def by_method(measurements, data, count):
    """{method: {S: measurement}} of those that made all rows of this shape."""
    found = {}
    for name, m in peers(measurements, data, count):
        found.setdefault(name, {})[m["selectivity"]] = m
    return found


def peers_table(measurements, ours=OURS):
    """A line for each shape and method, what it gave at each S beside each other."""
    rows, columns = [], selectivities(measurements)
    for data, count in shapes(measurements):
        for name, found in by_method(measurements, data, count).items():
            here = [found.get(s) for s in columns]
            times = [ratio(measurements, m, ours) if m else None for m in here]
            last = max(i for i, m in enumerate(here) if m) + 1
            rows.append([data, count, name, *(seconds(usual(m)) if m else "" for m in here),
                         "1" if name == ours else over_s(map(digits, times[:last])),
                         *(over_s(m.get(error) if m else None for m in here[:last]) for error in ("missed", "spurious"))])
    return table(["data", "n", "method", *(f"S = {s}, s" for s in columns), "times ours", "missed", "spurious"], rows)


def gemm_table(measurements):
    """Products in the form that was fastest."""
    rows = []
    for data, count in shapes(timed(measurements, method=GEMM)):
        best = min(timed(measurements, method=GEMM, data=data, rows=count), key=lambda m: statistics.median(usual(m)))
        ours = one(measurements, data=data, rows=count, method=OURS, output="count", selectivity=S)
        device = ((ours or {}).get("parts") or {}).get("engine_seconds", {}).get("device")
        gemm = statistics.median(usual(best))
        rows.append([data, count, best["dimensions"], digits(gemm), digits(device), digits(gemm / device if device else None),
                     digits(statistics.median(usual(ours))) if ours else ""])
    return table(["data", "n", "d", "products alone, s", "our join on the GPU, s", "products / our join", "our whole statement, s"], rows)


def without_times(measurements):
    """Methods that did not run, and why."""
    def what(m):
        named = [f"{name} = {m[key]}" for key, name in (("rows", "n"), ("selectivity", "S")) if key in m]
        return ", ".join([m["data"], *named, m["method"], *([m["output"]] if "output" in m else [])])
    return [f"- {what(m)}: {m['reason']}" for m in measurements if "reason" in m]


def when(results):
    """The revisions and days of both runs."""
    small, large = (measured_at(results[name]) if results[name] else "" for name in ("real_world", "real_world_large"))
    return small if large in ("", small) else f"{small} Tables of the paper's sizes: {large}"


def section(results):
    if results["real_world"] is None:
        return None
    measurements = measured(results)
    checks = [m for m in measurements if m["method"] == CHECK]
    wrong = [m for m in checks if m["missed"] or m["spurious"]]
    text = ["## End to end, inside PostgreSQL", "",
            "From the SQL statement to the last row: `SELECT count(*)` over the join of a table in the page cache. \"First\" is the first "
            "call of a new session, which wakes the GPU; \"warm\" a later one. The paper's times are of its real sets of the same "
            "size, on another GPU; [ours](../bench/datasets/README.md) are others. " + when(results), "",
            results.picture("real_world", "Seconds from the statement to the count, and of each method to all pairs"), "", ours_table(measurements), "",
            f"Where the time goes, in one warm call under EXPLAIN ANALYZE, S = {S}. Reading, waiting and output follow one another; what "
            "the GPU does overlaps them.", "", parts_table(measurements), "",
            f"The exact answers themselves were checked by an independent brute force in FP64 on all pairs of "
            f"{sum(m['checked_rows'] for m in checks)} rows, {sum(m['checked_pairs'] for m in checks)} pairs: "
            + ("none missed, none spurious." if not wrong else f"**wrong in {len(wrong)} cases.**"), "",
            "## Beside what people use", "",
            "All rows of the answer, in the client's hands, for each method on the same rows with the same eps; medians of warm calls. A "
            "method that would have taken too long at all rows ran at fewer, and so did ours. \"Times ours\" above 1: we are "
            "faster. Missed and spurious are unordered pairs against the exact answer; of several S, one after the other. PyTorch, FAISS "
            "and scikit-learn begin with the rows in the client's memory; \"export\" is the round trip from the table and back into one. "
            "[What each is](../bench/peers/README.md).", "", peers_table(measurements), ""]
    gemm = timed(measurements, method=GEMM)
    if gemm:
        text += ["The floor that others start from, FP16 products of all rows with all rows by cuBLAS, without comparing or storing "
                 f"anything; whole, in tiles, or of the triangle, whichever was fastest. Ours is at S = {S}.", "", gemm_table(measurements), ""]
    missing = without_times(measurements)
    if missing:
        text += ["Not measured:", "", *missing, ""]
    return "\n".join(text)


def headlines(results):
    """What users feel, and that the answers were checked."""
    for name, n, d, times in counted(results):
        if n >= LARGE:
            paper = published("real_world_seconds", paper_set(n, d), S)
            against = f"; the paper's set of that size took {digits(paper)} s on its GPU" if paper else ""
            yield (f"- From the SQL statement to the count, {n} x {d} ({name}): {digits(statistics.median(times['first']))} s in a new session, "
                   f"{digits(statistics.median(times['warm']))} s later{against}.")
    measurements = measured(results)
    times = [r for r in (ratio(measurements, m) for m in timed(measurements) if m["method"].startswith("export")) if r]
    if times:
        yield f"- The round trip out of the table, through PyTorch or FAISS, and back takes {digits(min(times))} to {digits(max(times))} times as long."


def losses(results):
    """Methods that were faster than we are, as a table; None without any."""
    measurements = measured(results)
    rows = []
    for data, count in shapes(measurements):
        for name, found in by_method(measurements, data, count).items():
            times = {s: ratio(measurements, m) for s, m in found.items()}
            faster = [s for s in found if times[s] is not None and times[s] < 1]
            if faster and not name.startswith("fasted"):
                rows.append([data, count, name, over_s(faster), over_s(digits(times[s]) for s in faster),
                             *(over_s(found[s].get(error) for s in faster) for error in ("missed", "spurious"))])
    return table(["data", "n", "method", "S", "its time / ours", "missed", "spurious"], rows) if rows else None


def counted(results):
    """(name, n, d, {"first": [seconds, ...], "warm": ...}) of statements that count, at S: all rows of a set, and the paper's sizes."""
    found = timed(largest(measured(results)), method=OURS, output="count", selectivity=S)
    for m in found:
        yield m["data"], m["rows"], m["dimensions"], m["seconds"]


def plot_counted(axis, results):
    names = []
    for place, (data, n, d, times) in enumerate(counted(results)):
        names.append(f"{data}\n{n} x {d}")
        for call, colour in (("first", "C0"), ("warm", "C1")):
            axis.plot(times[call], [place] * len(times[call]), "o", markersize=4, alpha=0.6, color=colour,
                      label=f"{call} call" if place == 0 else None)
        paper = published("real_world_seconds", paper_set(n, d), S)
        if paper:
            axis.plot(paper, place, "x", color="0.3", label=None if any(t.get_label() == "paper, A100" for t in axis.lines) else "paper, A100")
    axis.set(xscale="log", xlabel="seconds, from the statement to the count")
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.legend(fontsize=8)


def plot_methods(axis, measurements):
    """Seconds of each method to all pairs, a line for each shape."""
    places = [shape for shape in shapes(measurements)
              if timed(measurements, data=shape[0], rows=shape[1], selectivity=S, output="rows")]
    numbers = {}
    for place, (data, rows) in enumerate(places):
        for name, m in peers(measurements, data, rows):
            if m["selectivity"] != S:
                continue
            known = name in numbers
            number = numbers.setdefault(name, len(numbers))
            axis.plot(statistics.median(usual(m)), place, "D" if name.startswith("fasted") else "o", markersize=5, color=f"C{number % 10}",
                      label=None if known else name, fillstyle="full" if number < 10 else "none")
    axis.set(xscale="log", xlabel="seconds to all pairs in the client")
    axis.set_yticks(range(len(places)), [f"{data}\n{rows}" for data, rows in places], fontsize=8)
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def plot(results):
    measurements = measured(results)
    if not measurements:
        return
    fig, axes = figure(2, height=max(3.8, 0.4 * max(len(list(counted(results))), len(shapes(measurements)))))
    plot_counted(axes[0][0], results)
    plot_methods(axes[0][1], measurements)
    fig.tight_layout()
    save(fig, results.plot("real_world"))
