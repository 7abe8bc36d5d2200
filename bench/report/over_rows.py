"""Time over the number of rows, of fasted and of other programs."""
import math

from chosen import S, measured, median, timed
from page import COLOURS, cpu_name, figure, save

FITTED_ROWS = 10000             # the exponent is fitted to measurements of this many rows or more
NAMES = {"fasted cuda": "fasted, {gpu}", "fasted cpu": "fasted, {cpu}", "FAISS flat, CPU": "FAISS",
         "scikit-learn brute force": "scikit-learn", "pgvector nested loop": "pgvector, nested loop"}
PICTURE_TEXT = "Time over the number of rows, of fasted and of other programs"
OUTPUTS = {"rows": "until the client has all pairs", "count": "of `SELECT count(*)`"}


def points(measurements, method):
    """Returns {output: [(rows, seconds), ...]} of a method; the output with the most numbers of rows comes first."""
    found = {output: sorted((m["rows"], median(m)) for m in timed(measurements, method=method, output=output, selectivity=S))
             for output in OUTPUTS}
    return {output: found[output] for output in sorted(OUTPUTS, key=lambda name: -len(found[name])) if found[output]}


def exponent(here):
    """Returns b of seconds = a rows^b, by least squares of the logarithms, or None with fewer than two points."""
    logs = [(math.log(rows), math.log(seconds)) for rows, seconds in here if rows >= FITTED_ROWS]
    if len(logs) < 2:
        return None
    x, y = (sum(values) / len(logs) for values in zip(*logs))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def methods(results):
    """Returns [(name, points), ...] of the measured methods; [] without the result file."""
    found = results["over_rows"]
    if found is None:
        return []
    env = found["environment"]
    data = {m["data"] for m in found["measurements"]}
    measurements = [m for m in measured(results) if m["data"] in data]
    here = [(name.format(gpu=env.get("gpu"), cpu=cpu_name(env)), points(measurements, method)) for method, name in NAMES.items()]
    return [(name, by_output) for name, by_output in here if by_output]


def first(by_output):
    """Returns the points of the line of a method."""
    return next(iter(by_output.values()))


def about(results):
    """Returns sentences about the plotted times."""
    found = methods(results)
    ours = {output for name, by_output in found if name.startswith("fasted") for output in list(by_output)[:1]}
    if ours <= {"rows"}:
        return f"The lines show the time {OUTPUTS['rows']}."
    text = f"The lines show the time {OUTPUTS['count']} for fasted, and the time {OUTPUTS['rows']} for other programs."
    if any(len(by_output) > 1 for _, by_output in found):
        text += f" Hollow markers show the time {OUTPUTS['rows']} for fasted."
    return text


def lines(results):
    """Returns the plot with its description; [] without the result file."""
    found = methods(results)
    if not found:
        return []
    data, d = next((m["data"], m["dimensions"]) for m in results["over_rows"]["measurements"] if "seconds" in m)
    return [results.picture("over_rows", PICTURE_TEXT), "",
            f"{about(results)} The data set is {data} with {d} dimensions. The exponents b of t = a n^b are fitted from n = {FITTED_ROWS} on.", ""]


def plot(results):
    found = methods(results)
    if not found:
        return
    fig, axes = figure(width=6, height=4)
    axis = axes[0][0]
    for colour, (name, by_output) in zip(COLOURS, found):
        here, *others = by_output.values()
        b = exponent(here)
        axis.plot(*zip(*here), marker="o", markersize=4, color=colour, label=f"{name}: n^{b:.2f}" if b else name)
        for other in others:
            axis.plot(*zip(*other), linestyle="none", marker="o", markersize=6, fillstyle="none", color=colour)
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(fig, results.plot("over_rows"))
