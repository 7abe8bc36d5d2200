"""Cosine distances of embedding models, for doc/choosing-eps.md (bench/models/run.py)."""
import math

from page import COLOURS, figure, machines_of, save, table

NEIGHBOURS = (0.1, 1, 10)       # columns of the table
PRECISION = 0.9                 # smallest proportion of near-copies among the pairs within the suggested eps


def machine(results):
    """Returns the Results that have the measurements."""
    return machines_of(results, "models")[0]


def suggested(m):
    """Returns the largest distance within which PRECISION of the pairs are near-copies, rounded down to hundredths."""
    found = max(distance for distance, pairs, copies in m["copies"] if pairs and copies >= PRECISION * pairs)
    return math.floor(100 * found + 1e-6) / 100


def distances(results):
    """Returns the table of the page, with empty lines around it."""
    rows = []
    for m in machine(results)["models"]["measurements"]:
        at = dict(m["distances"])
        rows.append([m["model"], *(f"{at[n]:.2f}" for n in (*NEIGHBOURS, max(at))), f"{suggested(m):.2f}"])
    return "\n".join(["", "", table(["model", *map(str, NEIGHBOURS), "random", "duplicates"], rows), "", ""])


def pairs(results):
    """Returns the distances of the example pairs by the first model."""
    *others, last = (f"{distance:.2f}" for distance in machine(results)["models"]["measurements"][0]["pairs"])
    return f"{', '.join(others)} and {last}"


def plot(results):
    """Draws neighbours over distance; below it, the distances of the example pairs on the same axis."""
    found = machine(results)["models"]
    fig, axes = figure(width=7, height=6)
    above = axes[0][0]
    fig.subplots_adjust(bottom=0.45)
    below = fig.add_axes([above.get_position().x0, 0.05, above.get_position().width, 0.3], sharex=above)
    examples = found["settings"]["pairs"]
    for colour, m in zip(COLOURS, found["measurements"]):
        numbers, at = zip(*m["distances"])
        above.plot(at, numbers, color=colour, label=m["model"])
        below.plot(m["pairs"], range(len(examples)), linestyle="none", marker="o", markersize=6, color=colour)
    above.set(yscale="log", xlim=(0, 1), ylabel="neighbours per row", xlabel="cosine distance")
    above.legend(fontsize=8, loc="lower right")
    below.set(yticks=[], ylim=(len(examples) - 0.5, -0.8))
    below.spines["left"].set_visible(False)
    for k, (one, other) in enumerate(examples):
        below.text(0, k - 0.3, f"“{one}” / “{other}”", fontsize=8)
    save(fig, machine(results).plot("models"))
