"""Pruning, on a CPU and on a GPU: what it saves, and how the time grows with rows and eps."""
import statistics

from page import PUBLISHED, Results, digits, figure, save, table

CLOCKED = 0.004                 # seconds: of shorter joins the last digit is a tenth
METRICS = {"l2": "distance", "cosine": "cosine distance"}
PEERS = {"gds_join": "GDS-Join", "mistic": "MiSTIC", "ted_join_index": "TED-Join-Index"}


def on_gpu(m):
    return m.get("engine") == "cuda"


def spent(m, way):
    """Processor seconds, of a GPU seconds."""
    return statistics.median(m[way]["seconds" if on_gpu(m) else "cpu_seconds"])


def passed(m, way):
    return statistics.median(m[way]["seconds"])


def times_faster(m):
    return spent(m, "off") / spent(m, "auto")


def is_pruned(m):
    return sum(m["auto"]["pruned_tiles"]) > 0 or m["auto"].get("filter_dimensions", 0) > 0


def text_of(m):
    """One line about a measurement."""
    return (f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['metric']} {digits(m['eps'], 4)}: {m['auto']['pairs']} pairs, "
            f"{digits(spent(m, 'off'))} and {digits(spent(m, 'auto'))} s, {digits(times_faster(m))} times")


def line(m):
    pairs = m["auto"]["pairs"]
    auto = digits(spent(m, "auto")) if is_pruned(m) else f"{digits(spent(m, 'auto'))}, not pruned"
    more = [m["auto"]["filter_dimensions"] or ""] if on_gpu(m) else [digits(passed(m, "off")), digits(passed(m, "auto"))]
    return [m["data"], m["rows"], m["dimensions"], METRICS[m["metric"]], digits(m["eps"], 4), digits(2 * pairs / m["rows"]),
            digits(spent(m, "off")), auto, digits(times_faster(m)), *more]


def sets_table(found):
    head = ["data", "rows", "dimensions", "eps is a", "eps", "neighbours"]
    if gpu_found(found):
        head += ["off, s", "auto, s", "times", "numbers a row"]
    else:
        head += ["off, processor s", "auto, processor s", "times", "off, s", "auto, s"]
    return table(head, [line(m) for m in part(found, "sets")])


def gpu_found(found):
    return found["settings"].get("engine") == "cuda"


def kind_of_time(found):
    return "time" if gpu_found(found) else "processor time"


def part(found, name):
    return [m for m in found["measurements"] if m["part"] == name]


def runs(found):
    """How often each join ran."""
    times = [len(m["auto"]["seconds"]) for m in found["measurements"]]
    return f"Medians of {max(times)}{', of the longest joins one run' if min(times) < max(times) else ''}."


def about(found):
    env = found["environment"]
    if gpu_found(found):
        return f"{env['gpu']}, {env['cuda']}. {runs(found)} Revision {env['revision']}, {env['date']}."
    loads = [m["load"] for m in found["measurements"]]
    revisions = ", ".join(dict.fromkeys(m["revision"] for m in found["measurements"]))
    return (f"{env['processor']}, {env['processors']} processors, {env['memory_gib']} GiB, {env['system']}, {found['settings']['threads']} "
            f"threads, kernel {found['measurements'][0]['kernel']}; load of the machine {min(loads):g} to {max(loads):g}, so that "
            f"processor seconds are what to compare. {runs(found)} Revision {revisions}, {env['date']}.")


def machine_page(found):
    """The page beside a machine's results."""
    return "\n".join([f"# Pruning on a {'GPU' if gpu_found(found) else 'CPU'}", "", "Written by `bench/pruning/run.py`.", "", about(found), "", sets_table(found), "",
                      *[f"- {text_of(m)}" for name in ("rows", "eps") for m in part(found, name)], ""])


def machines(results):
    for folder in sorted(results.folder.parent.iterdir()):
        other = Results(folder.name)
        if other["pruning"]:
            yield other


def growth(points):
    """The exponent of the rows, from the first to the last of (rows, seconds)."""
    import math

    (n, t), (most, longest) = points[0], points[-1]
    return math.log(longest / t) / math.log(most / n)


def growth_lines(found):
    for data in dict.fromkeys(m["data"] for m in part(found, "rows")):
        here = sorted((m for m in part(found, "rows") if m["data"] == data), key=lambda m: m["rows"])
        if len(here) > 1:
            off, auto = (growth([(m["rows"], spent(m, way)) for m in here]) for way in ("off", "auto"))
            yield (f"- {data} at {METRICS[here[0]['metric']]} {digits(here[0]['eps'], 2)}: from {here[0]['rows']} to {here[-1]['rows']} rows "
                   f"{kind_of_time(found)} grows like n^{off:.2f} without pruning and n^{auto:.2f} with it.")


def published_table():
    rows = []
    for name, times in PUBLISHED["real_world_seconds"].items():
        for peer, title in PEERS.items():
            here = PUBLISHED["index_seconds"].get(name, {}).get(peer)
            if here:
                n, d = PUBLISHED["sets"][name]
                rows.append([name, n, d, title, *(digits(here[s], 4) for s in times), digits(here["256"] / here["64"])])
    return table(["set", "rows", "dimensions", "join", "S = 64, s", "128", "256", "256 / 64"], rows)


def eps_lines(found):
    for data in dict.fromkeys(m["data"] for m in part(found, "eps")):
        here = sorted((m for m in part(found, "eps") if m["data"] == data), key=lambda m: m["eps"])
        yield (f"- {data}, {here[0]['rows']} rows, from {METRICS[here[0]['metric']]} {digits(here[0]['eps'], 2)} to "
               f"{digits(here[-1]['eps'], 2)}, {digits(2 * here[0]['auto']['pairs'] / here[0]['rows'])} to "
               f"{digits(2 * here[-1]['auto']['pairs'] / here[-1]['rows'])} neighbours a row: {digits(spent(here[0], 'auto'))} to "
               f"{digits(spent(here[-1], 'auto'))} s pruned, {digits(spent(here[0], 'off'))} to {digits(spent(here[-1], 'off'))} s without.")


def headlines(results):
    for other in machines(results):
        near = [] if gpu_found(other["pruning"]) else [m for m in part(other["pruning"], "sets") if m["metric"] == "cosine" and m["data"].startswith("debian-")]
        if near:
            ratios = [times_faster(m) for m in near]
            yield (f"- Near-duplicates of real embeddings by cosine: {digits(min(ratios), 2)} to {digits(max(ratios), 2)} times less processor "
                   "time on a CPU by [comparing few dimensions first](#few-dimensions-first).")


ALONE = ("The engine alone, from its last row to the last pair: form, projection, order, packing, filter, recheck. Both ways ran in turn "
         "in one program, and gave the same pairs with the same bits.")
ALONE_ON_GPU = ("The engine alone, from its last row to the last pair's count: form, projection, filter, recheck. Both ways ran in turn in one "
                "program, and counted the same pairs. Short rows are tried where they might save 80 ms, for a try takes a tenth of that; so "
                "smaller joins are as they are without.")


def seconds_of(found):
    return "seconds" if gpu_found(found) else "processor seconds"


def section(results):
    text = []
    for other in machines(results):
        found = other["pruning"]
        text += [about(found), "", ALONE_ON_GPU if gpu_found(found) else ALONE, "", sets_table(found), "",
                 *([other.picture("pruning", f"{seconds_of(found).capitalize()} over rows and over eps, pruned and not"), ""]
                   if part(found, "rows") or part(found, "eps") else []),
                 *growth_lines(found), *eps_lines(found), ""]
    if not text:
        return None
    worst = {gpu: min((times_faster(m) for other in machines(results) for m in other["pruning"]["measurements"]
                       if on_gpu(m) == gpu and spent(m, "off") >= CLOCKED), default=None) for gpu in (False, True)}
    least = [f"{digits(worst[gpu])} on a {name}" for gpu, name in ((False, "CPU"), (True, "GPU")) if worst[gpu]]
    return "\n".join([
        "## Few dimensions first", "",
        "On a CPU, tiles of rows are [compared at 32, 64 or 128 leading dimensions first](internals/bound-pruning.md), on a GPU at 64 or 128 numbers "
        "a row that a projection made, which loses no pair; `fasted.prune = off` leaves that out. NAME+long has one row in a hundred 3 to 30 times as long, NAME+heavy log-normal lengths, "
        f"NAME+sphere lengths of 1. The least ratio of all that take {1000 * CLOCKED:g} ms and more is {' and '.join(least)}.", "", *text,
        "Joins that look rows up in an index slow down as eps grows, and so does this one; a join that compares everything does not. "
        "Published times of three such, of the paper's sets on the paper's GPU:", "", published_table(), ""])


def curve(axis, here, x):
    for way, style in (("off", "--"), ("auto", "-")):
        points = sorted((x(m), spent(m, way)) for m in here)
        label = {"off": "not pruned", "auto": "pruned"}[way]
        axis.plot(*zip(*points), marker="o", markersize=3, linestyle=style, label=f"{here[0]['data']}, {label}",
                  color=f"C{here[0]['colour']}")


def plot(results):
    for other in machines(results):
        found = other["pruning"]
        data = list(dict.fromkeys(m["data"] for name in ("rows", "eps") for m in part(found, name)))
        if not data:
            continue
        fig, axes = figure(1 + len(data), width=3.8)
        for i, name in enumerate(data):
            of = {kind: [{**m, "colour": i} for m in part(found, kind) if m["data"] == name] for kind in ("rows", "eps")}
            if of["rows"]:
                curve(axes[0][0], of["rows"], lambda m: m["rows"])
            if of["eps"]:
                axis = axes[0][1 + i]
                curve(axis, of["eps"], lambda m: m["eps"])
                axis.set(xlabel=f"eps, a {METRICS[of['eps'][0]['metric']]}", ylim=(0, None),
                         title=f"{name}, {of['eps'][0]['rows']} rows")
        axes[0][0].set(xscale="log", yscale="log", xlabel="rows", ylabel=seconds_of(found), title="at one eps each")
        sizes = sorted({m["rows"] for m in part(found, "rows")})
        axes[0][0].set_xticks(sizes, list(map(str, sizes)))
        axes[0][0].set_xticks([], minor=True)
        axes[0][0].legend(fontsize=7)
        save(fig, other.plot("pruning"))
