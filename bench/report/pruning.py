"""Pruning on a CPU and on a GPU: the time that it saves, and how the time grows with rows and eps."""
import math
import statistics

from page import COLOURS, PUBLISHED, cpu_name, digits, figure, machines_of, save, table

CLOCKED = 0.004                 # seconds; the times of shorter joins are not exact enough for a ratio
METRICS = {"l2": "distance", "cosine": "cosine distance"}


def on_gpu(m):
    return m.get("engine") == "cuda"


def spent(m, way):
    """Returns CPU seconds of a join by the CPU engine, or seconds of a join by a GPU."""
    return statistics.median(m[way]["seconds" if on_gpu(m) else "cpu_seconds"])


def times_faster(m):
    return spent(m, "off") / spent(m, "auto")


def neighbours(m):
    """Returns the mean number of neighbours per row."""
    return 2 * m["auto"]["pairs"] / m["rows"]


def is_pruned(m):
    return sum(m["auto"]["pruned_tiles"]) > 0 or m["auto"].get("filter_dimensions", 0) > 0


def text_of(m):
    """Returns one line about a measurement."""
    return (f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['metric']} {digits(m['eps'], 4)}: {m['auto']['pairs']} pairs, "
            f"{digits(spent(m, 'off'))} s without pruning, {digits(spent(m, 'auto'))} s with it, ratio {digits(times_faster(m))}")


def line(m):
    auto = digits(spent(m, "auto")) if is_pruned(m) else f"{digits(spent(m, 'auto'))}, not pruned"
    return [m["data"], m["rows"], m["dimensions"], digits(m["eps"]) + (" (cosine)" if m["metric"] == "cosine" else ""), digits(neighbours(m)),
            digits(spent(m, "off")), auto, digits(times_faster(m)), m["auto"].get("filter_dimensions") or ""]


def sets_table(found, measurements):
    return table(["data", "n", "d", "eps", "neighbours per row", "off, s", "auto, s", "off / auto", "reduced dimensions"],
                 [line(m) for m in measurements])


def gpu_found(found):
    return found["settings"].get("engine") == "cuda"


def part(found, name):
    return [m for m in found["measurements"] if m["part"] == name]


def most_neighbours(measurements):
    """Returns the measurement of each data set that has the most neighbours."""
    found = {}
    for m in sorted(measurements, key=neighbours):
        found[m["data"]] = m
    return [m for m in measurements if m in found.values()]


def about(found):
    """Returns the hardware and the kind of time of a result file."""
    env = found["environment"]
    if gpu_found(found):
        return f"{env['gpu']}, seconds. Revision {env['revision']}, {env['date']}."
    revisions = ", ".join(dict.fromkeys(m["revision"] for m in found["measurements"]))
    return (f"{cpu_name(env)}, {found['settings']['threads']} threads, CPU seconds, because other programs used the machine as well. "
            f"Revision {revisions}, {env['date']}.")


def machine_page(found):
    """Returns the page beside the result file of a machine."""
    return "\n".join([f"# Pruning on a {'GPU' if gpu_found(found) else 'CPU'}", "", "Written by `bench/pruning/run.py`.", "", about(found), "",
                      sets_table(found, part(found, "sets")), "",
                      *[f"- {text_of(m)}" for name in ("rows", "eps") for m in part(found, name)], ""])


def growth(points):
    """Returns the exponent of the rows, from the first to the last of (rows, seconds)."""
    (n, t), (most, longest) = points[0], points[-1]
    return math.log(longest / t) / math.log(most / n)


def growth_lines(found):
    for data in dict.fromkeys(m["data"] for m in part(found, "rows")):
        here = sorted((m for m in part(found, "rows") if m["data"] == data), key=lambda m: m["rows"])
        if len(here) > 1:
            off, auto = (growth([(m["rows"], spent(m, way)) for m in here]) for way in ("off", "auto"))
            yield (f"- {data} at {METRICS[here[0]['metric']]} {digits(here[0]['eps'], 2)}: from {here[0]['rows']} to {here[-1]['rows']} rows "
                   f"the time grows as n^{off:.2f} without pruning, and as n^{auto:.2f} with it.")


def published_growth():
    """Returns how much longer joins with an index take at S = 256 than at S = 64, in the paper."""
    growth = [here["256"] / here["64"] for joins in PUBLISHED["index_seconds"].values() for here in joins.values()]
    return f"{min(growth):.2f} to {max(growth):.2f}"


def headlines(results):
    for machine in machines_of(results, "pruning"):
        found = machine["pruning"]
        near = [] if gpu_found(found) else [m for m in part(found, "sets") if m["metric"] == "cosine" and m["data"].startswith("debian-")]
        if near:
            ratios = [times_faster(m) for m in near]
            yield (f"- For near-duplicates of real embeddings by cosine distance, [pruning](#pruning) reduces the CPU time by a factor of "
                   f"{digits(min(ratios), 2)} to {digits(max(ratios), 2)}.")


def worst(machines):
    """Returns the lowest ratios, on CPUs and on GPUs, of joins that take CLOCKED seconds or more."""
    for gpu, name in ((False, "on a CPU"), (True, "on a GPU")):
        ratios = [times_faster(m) for machine in machines for m in machine["pruning"]["measurements"]
                  if on_gpu(m) == gpu and spent(m, "off") >= CLOCKED]
        if ratios:
            yield f"{digits(min(ratios))} {name}"


def section(results):
    machines = machines_of(results, "pruning")
    text = []
    for machine in machines:
        found = machine["pruning"]
        text += [about(found), "", sets_table(found, most_neighbours(part(found, "sets"))), "",
                 *([machine.picture("pruning", "Time over rows and over eps, with pruning and without"), ""]
                   if part(found, "rows") or part(found, "eps") else []),
                 *growth_lines(found), "",
                 f"[All cases](results/{machine.machine}/pruning.md)", ""]
    if not text:
        return None
    return "\n".join([
        "## Pruning", "",
        "A CPU compares rows by [their leading dimensions first](../doc/internals/bound-pruning.md), and a GPU compares projected rows of 64 or "
        "128 dimensions first. No pair is lost. `fasted.prune = off` turns it off. The tables have the times of the engine alone, from the last row to the "
        "last pair; of each data set, they show the case with the most neighbours. NAME+long has one row in a hundred that is 3 to 30 times as "
        "long, NAME+heavy has log-normal lengths, and NAME+sphere has lengths of 1. A GPU tries projected rows only if they can save 80 ms. "
        f"The lowest ratio of all joins of {1000 * CLOCKED:g} ms or more is {' and '.join(worst(machines))}.", "", *text,
        "Pruning becomes less effective as eps grows, as do joins that use an index. In the paper, GDS-Join, MiSTIC and TED-Join-Index take "
        f"{published_growth()} times as long with S = 256 as with S = 64.", ""])


def curve(axis, here, x, colour):
    for way, style in (("off", "--"), ("auto", "-")):
        points = sorted((x(m), spent(m, way)) for m in here)
        label = {"off": "not pruned", "auto": "pruned"}[way]
        axis.plot(*zip(*points), marker="o", markersize=3, linestyle=style, label=f"{here[0]['data']}, {label}", color=colour)


def plot(results):
    for machine in machines_of(results, "pruning"):
        found = machine["pruning"]
        data = list(dict.fromkeys(m["data"] for name in ("rows", "eps") for m in part(found, name)))
        if not data:
            continue
        fig, axes = figure(1 + len(data), width=3.8)
        for i, name in enumerate(data):
            of = {kind: [m for m in part(found, kind) if m["data"] == name] for kind in ("rows", "eps")}
            if of["rows"]:
                curve(axes[0][0], of["rows"], lambda m: m["rows"], COLOURS[i])
            if of["eps"]:
                axis = axes[0][1 + i]
                curve(axis, of["eps"], lambda m: m["eps"], COLOURS[i])
                axis.set(xlabel=f"eps, a {METRICS[of['eps'][0]['metric']]}", ylim=(0, None),
                         title=f"{name}, {of['eps'][0]['rows']} rows")
        axes[0][0].set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds" if gpu_found(found) else "CPU seconds", title="at one eps each")
        sizes = sorted({m["rows"] for m in part(found, "rows")})
        axes[0][0].set_xticks(sizes, list(map(str, sizes)))
        axes[0][0].set_xticks([], minor=True)
        axes[0][0].legend(fontsize=7)
        save(fig, machine.plot("pruning"))
