"""End to end on data sets, and beside what people use (section 4.5 of the paper)."""
import statistics

from page import digits, figure, measured_at, paper_set, published, save, seconds, table, tflops

OURS = "fasted cuda"
GEMM = "cuBLAS GEMM alone"
CHECK = "check in FP64"
PARTS = ("read", "wait", "output", "prepare", "filter", "recheck", "device")


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


def ours_table(measurements):
    rows = []
    for m in timed(measurements, method=OURS, output="count", call="first"):
        key = {name: m[name] for name in ("data", "rows", "selectivity")}
        warm = one(measurements, method=OURS, output="count", call="warm", **key)
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


def beside(measurements, m):
    """Our join inside PostgreSQL that streams the same rows of the same data."""
    return best_call(measurements, data=m["data"], rows=m["rows"], selectivity=m["selectivity"], method=OURS, output="rows")


def ratio(measurements, m):
    ours = beside(measurements, m)
    return m["seconds"]["median"] / ours["seconds"]["median"] if ours else None


def peers_table(measurements):
    rows = []
    for data, count in shapes(measurements):
        for name, m in peers(measurements, data, count):
            times = ratio(measurements, m)
            rows.append([data, count, m["dimensions"], m["selectivity"], name, seconds(m["seconds"]),
                         "1" if name == OURS else digits(times), m.get("missed", ""), m.get("spurious", "")])
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
    return [f"- {m['data']}, {m['method']}: {m['reason']}" for m in measurements if "reason" in m]


def large_tables(results):
    """A paragraph on tables of many rows, in a run of its own."""
    found = results["large"]
    if found is None:
        return []
    machine = found["machine"]
    return [f"Larger tables, in a run of their own (revision {machine['revision']}, {machine['date']}):", "", large_table(found), ""]


def section(results):
    found = results["real_world"]
    if found is None:
        return None
    measurements = found["measurements"]
    checks = [m for m in measurements if m["method"] == CHECK]
    wrong = [m for m in checks if m["missed"] or m["spurious"]]
    text = ["## End to end, inside PostgreSQL", "",
            "From the SQL statement to the last row: `SELECT count(*)` over the join of a table in the page cache. \"First\" is the first "
            "call of a new session, which wakes the GPU; \"warm\" a later one. The paper's times are of its real sets of the same "
            "size, on another GPU; [ours](../bench/datasets/README.md) are others. " + measured_at(found), "",
            results.picture("real_world", "Seconds from the statement to the count"), "", ours_table(measurements), "",
            *large_tables(results),
            "Where the time goes, in a warm call under EXPLAIN ANALYZE. Reading, waiting and output follow one another; what the GPU "
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


def losses(results):
    """Lines on methods that were faster than we are."""
    found = results["real_world"]
    if found is None:
        return
    measurements = found["measurements"]
    for data, count in shapes(measurements):
        for name, m in peers(measurements, data, count):
            times = ratio(measurements, m)
            if not name.startswith("fasted") and times is not None and times < 1:
                yield (f"- {data}, {count} x {m['dimensions']}, S = {m['selectivity']}: {name} takes {digits(times)} of our time"
                       + (f", and misses {m['missed']} pairs and invents {m['spurious']}" if m.get("missed") or m.get("spurious") else "") + ".")


def plot(results):
    found = results["real_world"]
    if found is None:
        return
    measurements = found["measurements"]
    largest = {}
    for m in timed(measurements, method=OURS, output="count"):
        largest[m["data"]] = max(m["rows"], largest.get(m["data"], 0))
    fig, axes = figure(width=1.3 * len(largest) + 3, height=3.2)
    axis = axes[0][0]
    for place, (data, rows) in enumerate(largest.items()):
        for shift, call in ((-0.2, "first"), (0.2, "warm")):
            m = one(measurements, data=data, rows=rows, method=OURS, output="count", call=call, selectivity=64)
            if m:
                spread = m["seconds"]
                axis.bar(place + shift, spread["median"], 0.38, color="C0" if call == "first" else "C1",
                         yerr=[[spread["median"] - spread["least"]], [spread["most"] - spread["median"]]], capsize=2,
                         label=f"{call} call" if place == 0 else None)
        shape = one(measurements, data=data, rows=rows, method=OURS, output="count")
        paper = published("real_world_seconds", paper_set(rows, shape["dimensions"]), 64)
        if paper:
            axis.plot(place, paper, marker="_", markersize=22, color="0.3", linestyle="", label="paper, A100" if place == 0 else None)
    axis.set(yscale="log", ylabel="seconds, S = 64")
    axis.set_xticks(range(len(largest)), [f"{data}\n{rows}" for data, rows in largest.items()], fontsize=8)
    axis.legend(fontsize=8)
    save(fig, results.plot("real_world"))
