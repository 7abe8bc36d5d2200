"""Joins of bit vectors, beside other programs."""
import statistics

from page import digits, hardware, machines_of, measured_at, table

NESTED, PEERS = "pgvector nested loop", ("FPSim2", "FAISS")


def seconds(m):
    """Returns the median; for a method that compared a share of the pairs, the time for all pairs."""
    return statistics.median(m["seconds"]["warm"]) / m.get("share", 1)


def joins(found):
    """Returns {(data, rows, bits, metric, eps): {method: measurement}}."""
    here = {}
    for m in found["measurements"]:
        if "seconds" in m:
            here.setdefault((m["data"], m["rows"], m["bits"], m["metric"], m["eps"]), {})[m["method"]] = m
    return here


def in_short(results):
    """Returns lines of README's table: the first data set of each machine."""
    lines = []
    for machine in machines_of(results, "bits"):
        found = machine["bits"]
        (_, rows, bits, metric, eps), methods = next(iter(joins(found).items()))
        times = {name: f"{digits(seconds(m), 2)} s" for name, m in methods.items()}
        others = ", ".join(f"{name} {times[name]}" for name in PEERS if name in times)
        lines.append([f"{rows} x {bits} bits, {metric} {eps:g}", hardware(found["environment"]), times["fasted_self_join"], times.get(NESTED, ""), others])
    return sorted(lines, key=lambda line: int(line[0].split()[0]))


def lines(found):
    """Returns a line of the table for each data set."""
    for (data, rows, bits, metric, eps), methods in joins(found).items():
        ours = methods["fasted_self_join"]
        mine = seconds(ours)
        nested = f"{digits(seconds(methods[NESTED]) / mine, 2)} times" if NESTED in methods else ""
        peers = "; ".join(f"{name} {digits(seconds(methods[name]) / mine, 2)} times" for name in PEERS if name in methods)
        yield [f"{data}, {rows} x {bits}", f"{metric} {eps:g}", ours["pairs"], f"{digits(mine)} s", nested, peers]


def section(results):
    text = []
    for machine in machines_of(results, "bits"):
        found = machine["bits"]
        text += [f"{hardware(found['environment'])}. {measured_at(found)}", "",
                 table(["rows x bits", "distance", "pairs", "fasted", "pgvector's nested loop", "other program"], list(lines(found))), ""]
    if not text:
        return None
    return "\n".join([
        "## Bit vectors", "",
        "Time of `SELECT count(*)` over [`fasted_self_join`](../doc/bit-vectors.md), and the times of other programs as multiples of it. FPSim2 and FAISS "
        "search for a random twentieth of the rows, which are in their memory. The nested loop joins the first rows. Their times are divided "
        "by the share of the pairs that they compare.", "", *text])
