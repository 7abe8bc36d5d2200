"""End to end on data sets, and beside what people use (section 4.5 of the paper)."""
import statistics

from page import digits, figure, measured_at, paper_set, published, save, seconds, table, tflops

OURS = "fasted cuda"
GEMM = "cuBLAS GEMM alone"
CHECK = "check in FP64"
LARGE = 1000000                 # rows of a table that the summary names
PARTS = ("read", "wait", "output", "prepare", "filter", "recheck", "device")


def measured(results):
    """All measurements of the machine: those of the paper's sizes are of a run of their own, and count where
    both runs had a shape."""
    small, large = ((results[name] or {"measurements": []})["measurements"] for name in ("real_world", "real_world_large"))
    again = shapes(large)
    return [m for m in small if (m["data"], m.get("rows")) not in again] + large


def timed(measurements, **wanted):
    """Those with times and these values."""
    return [m for m in measurements if "seconds" in m and all(m.get(key) == value for key, value in wanted.items())]


def one(measurements, **wanted):
    found = timed(measurements, **wanted)
    return found[0] if found else None


def shapes(measurements):
    """(data, rows) in the order of the file."""
    return list(dict.fromkeys((m["data"], m["rows"]) for m in timed(measurements)))


def best_call(measurements, **wanted):
    """The warm call, or the first where there was only one."""
    return one(measurements, call="warm", **wanted) or one(measurements, call="first", **wanted)


def part(m, name):
    parts = m.get("parts") or {}
    return digits({**parts.get("session_seconds", {}), **parts.get("engine_seconds", {})}.get(name))


def ours_table(measurements, ours=OURS):
    rows = []
    for m in timed(measurements, method=ours, output="count", call="first"):
        key = {name: m[name] for name in ("data", "rows", "selectivity")}
        warm = one(measurements, method=ours, output="count", call="warm", **key)
        paper = published("real_world_seconds", paper_set(m["rows"], m["dimensions"]), m["selectivity"])
        rows.append([m["data"], m["rows"], m["dimensions"], m["selectivity"], digits(m["eps"], 5), m.get("pairs", ""), seconds(m["seconds"]),
                     seconds(warm["seconds"]), digits(tflops(m["rows"], m["dimensions"], warm["seconds"]["median"])),
                     digits(paper), (m.get("parts") or {}).get("distance_filter", "")])
    return table(["data", "n", "d", "S", "eps", "pairs", "first call, s", "warm, s", "warm, TFLOPS", "paper, A100, s", "filter"], rows)


def large_table(found):
    """What bench/gpu_join/large.py measured."""
    rows = []
    for row in found["rows"]:
        first, warm = ({"median": statistics.median(row[call]), "least": min(row[call]), "most": max(row[call]), "all": row[call]}
                       for call in ("first", "warm"))
        paper = published("real_world_seconds", paper_set(row["n"], row["d"]), 64)
        rows.append(["embeddings", row["n"], row["d"], 64, row["pairs"], seconds(first), seconds(warm),
                     digits(tflops(row["n"], row["d"], warm["median"])), digits(paper)])
    return table(["data", "n", "d", "S", "pairs", "first call, s", "warm, s", "warm, TFLOPS", "paper, A100, s"], rows)


def parts_table(measurements):
    rows = []
    for m in timed(measurements, method=OURS, call="warm"):
        if m.get("parts"):
            rows.append([m["data"], m["rows"], m["selectivity"], m["output"], digits(m["parts"]["total"]),
                         *(part(m, name) for name in PARTS)])
    return table(["data", "n", "S", "output", "total, s", "reading and staging", "waiting for the engine", "output", "quantising",
                  "filter", "recheck", "all on the GPU"], rows)


def peers(measurements, data, rows):
    """(name, measurement) of each other method at this shape, whatever S."""
    names = dict.fromkeys(m["method"] for m in timed(measurements, data=data, rows=rows) if m["method"] not in (GEMM, CHECK))
    for name in names:
        for selectivity in sorted({m["selectivity"] for m in timed(measurements, data=data, rows=rows, method=name)}):
            found = best_call(measurements, data=data, rows=rows, method=name, output="rows", selectivity=selectivity)
            if found:
                yield name, found


def beside(measurements, m, ours=OURS):
    """Our join inside PostgreSQL that streams the same rows of the same data."""
    return best_call(measurements, data=m["data"], rows=m["rows"], selectivity=m["selectivity"], method=ours, output="rows")


def ratio(measurements, m, ours=OURS):
    found = beside(measurements, m, ours)
    return m["seconds"]["median"] / found["seconds"]["median"] if found else None


def peers_table(measurements, ours=OURS):
    rows = []
    for data, count in shapes(measurements):
        for name, m in peers(measurements, data, count):
            times = ratio(measurements, m, ours)
            rows.append([data, count, m["dimensions"], m["selectivity"], name, seconds(m["seconds"]),
                         "1" if name == ours else digits(times), m.get("missed", ""), m.get("spurious", "")])
    return table(["data", "n", "d", "S", "method", "seconds", "times ours", "missed", "spurious"], rows)


def gemm_table(measurements):
    rows = []
    for m in timed(measurements, method=GEMM):
        ours = best_call(measurements, data=m["data"], rows=m["rows"], method=OURS, output="count")
        plan = (ours or {}).get("parts") or {}
        device = plan.get("engine_seconds", {}).get("device")
        gemm = m["seconds"]["median"]
        rows.append([m["data"], m["rows"], m["dimensions"], m["output"], digits(gemm), digits(device), digits(gemm / device if device else None),
                     digits(ours["seconds"]["median"]) if ours else ""])
    return table(["data", "n", "d", "products", "products alone, s", "our join on the GPU, s", "products / our join",
                  "our whole statement, s"], rows)


def without_times(measurements):
    """Methods that did not run, and why."""
    def what(m):
        named = [f"{name} = {m[key]}" for key, name in (("rows", "n"), ("selectivity", "S")) if key in m]
        return ", ".join([m["data"], *named, m["method"], *([m["output"]] if "output" in m else [])])
    return [f"- {what(m)}: {m['reason']}" for m in measurements if "reason" in m]


def large_tables(results):
    """A paragraph on tables of many rows, in a run of its own."""
    found = results["large"]
    if found is None:
        return []
    machine = found["machine"]
    return [f"Larger tables, in a run of their own (revision {machine['revision']}, {machine['date']}):", "", large_table(found), ""]


def when(results):
    """The revisions and days of both runs."""
    large = results["real_world_large"]
    return measured_at(results["real_world"]) + (f" Tables of the paper's sizes: {measured_at(large)}" if large else "")


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
            *large_tables(results),
            "Where the time goes, in one warm call under EXPLAIN ANALYZE. Reading, waiting and output follow one another; what the GPU "
            "does overlaps them.", "", parts_table(measurements), "",
            f"The exact answers themselves were checked by an independent brute force in FP64 on all pairs of "
            f"{sum(m['checked_rows'] for m in checks)} rows, {sum(m['checked_pairs'] for m in checks)} pairs: "
            + ("none missed, none spurious." if not wrong else f"**wrong in {len(wrong)} cases.**"), "",
            "## Beside what people use", "",
            "All rows of the answer, in the client's hands, for each method on the same rows with the same eps; medians of warm calls. A "
            "method that would have taken too long at all rows ran at fewer, and so did ours. \"Times ours\" above 1: we are "
            "faster. Missed and spurious are unordered pairs against the exact answer. PyTorch, FAISS and scikit-learn begin with the "
            "rows in the client's memory; \"export\" is the round trip from the table and back into one. "
            "[What each is](../bench/peers/README.md).", "", peers_table(measurements), ""]
    gemm = timed(measurements, method=GEMM)
    if gemm:
        text += ["The floor that others start from, FP16 products of all rows with all rows by cuBLAS, without comparing or storing "
                 "anything:", "", gemm_table(measurements), ""]
    missing = without_times(measurements)
    if missing:
        text += ["Not measured:", "", *missing, ""]
    return "\n".join(text)


def headlines(results):
    """What users feel, and that the answers were checked."""
    for name, n, d, times in counted(results):
        if n >= LARGE:
            paper = published("real_world_seconds", paper_set(n, d), 64)
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
        for name, m in peers(measurements, data, count):
            times = ratio(measurements, m)
            if not name.startswith("fasted") and times is not None and times < 1:
                rows.append([data, count, m["dimensions"], m["selectivity"], name, digits(times), m.get("missed", ""), m.get("spurious", "")])
    return table(["data", "n", "d", "S", "method", "its time / ours", "missed", "spurious"], rows) if rows else None


def counted(results):
    """(name, n, d, {"first": [seconds, ...], "warm": ...}) of statements that count, S = 64, all rows of a set; then the larger tables."""
    measurements = measured(results)
    here = timed(measurements, method=OURS, output="count", call="warm", selectivity=64)
    largest = {m["data"]: max(other["rows"] for other in here if other["data"] == m["data"]) for m in here}
    for m in here:
        if m["rows"] >= min(largest[m["data"]], LARGE):
            first = one(measurements, method=OURS, output="count", call="first", selectivity=64, data=m["data"], rows=m["rows"])
            yield m["data"], m["rows"], m["dimensions"], {"first": first["seconds"]["all"], "warm": m["seconds"]["all"]}
    for row in (results["large"] or {"rows": []})["rows"]:
        yield "embeddings", row["n"], row["d"], {call: row[call] for call in ("first", "warm")}


def plot_counted(axis, results):
    names = []
    for place, (data, n, d, times) in enumerate(counted(results)):
        names.append(f"{data}\n{n} x {d}")
        for call, colour in (("first", "C0"), ("warm", "C1")):
            axis.plot(times[call], [place] * len(times[call]), "o", markersize=4, alpha=0.6, color=colour,
                      label=f"{call} call" if place == 0 else None)
        paper = published("real_world_seconds", paper_set(n, d), 64)
        if paper:
            axis.plot(paper, place, "x", color="0.3", label=None if any(t.get_label() == "paper, A100" for t in axis.lines) else "paper, A100")
    axis.set(xscale="log", xlabel="seconds, from the statement to the count")
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.legend(fontsize=8)


def plot_methods(axis, measurements):
    """Seconds of each method to all pairs, a line for each shape, S = 64."""
    places = [shape for shape in shapes(measurements)
              if timed(measurements, data=shape[0], rows=shape[1], selectivity=64, output="rows")]
    numbers = {}
    for place, (data, rows) in enumerate(places):
        for name, m in peers(measurements, data, rows):
            if m["selectivity"] != 64:
                continue
            known = name in numbers
            number = numbers.setdefault(name, len(numbers))
            axis.plot(m["seconds"]["median"], place, "D" if name.startswith("fasted") else "o", markersize=5, color=f"C{number % 10}",
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
