"""Accuracy of the paper's FP16-32 and of the exact mode (section 4.6 of the paper, Tables 8 and 9)."""
from chosen import S
from page import digits, figure, measured_at, paper_set, published, save, table

PAPER_METHOD = "FP16-32 of the paper"
SHOWN_DIMENSIONS = 512          # those of Cifar60K, which the paper shows


def number(value):
    """Returns an overlap with six decimals. Only an overlap of exactly 1 is written as 1."""
    return "1" if value == 1 else f"{value:.6f}"


def split(found):
    """Returns the measurements of the paper's method, and those of the exact mode."""
    measurements = found["measurements"]
    return [m for m in measurements if m["method"] == PAPER_METHOD], [m for m in measurements if m["method"] != PAPER_METHOD]


def is_exact(m):
    return m["overlap"] == 1 and not m["missed"] and not m["spurious"] and m["errors"] and m["errors"]["most"] == 0


def headlines(results):
    """Yields the number of wrong pairs of both methods."""
    found = results["accuracy"]
    if found is None:
        return
    paper, exact = split(found)
    yield (f"- Of {sum(m['true_pairs'] for m in paper)} pairs, the paper's FP16-32 misses {sum(m['missed'] for m in paper)} and adds "
           f"{sum(m['spurious'] for m in paper)} false ones. " + ("fasted has neither." if all(map(is_exact, exact)) else "**fasted is wrong, too.**"))


def section(results):
    found = results["accuracy"]
    if found is None:
        return None
    paper, exact = split(found)
    rows = []
    for m in paper:
        if m["selectivity"] == S:
            errors = m["errors"] or {}
            rows.append([m["data"], m["dimensions"], m["true_pairs"], number(m["overlap"]), m["missed"], m["spurious"], digits(errors.get("mean")),
                         digits(errors.get("deviation")), digits(errors.get("most")),
                         published("overlap", paper_set(None, m["dimensions"]), S) or ""])
    right = all(map(is_exact, exact))
    return "\n".join([
        "## Accuracy", "",
        f"FP16-32 of the paper on {paper[0]['rows']} rows of each data set. The true result is the join with `fasted.filter = fp64`. Overlap is Equation 3 of "
        "the paper, and its last column is the overlap that the paper reports for a real data set of as many dimensions. The error is that of the "
        f"distances of pairs that both results have. {measured_at(found)}", "",
        results.picture("accuracy", "Histogram of the error of distances"), "",
        table(["data", "d", "pairs", "overlap", "missed", "spurious", "mean error", "deviation", "largest error", "overlap, paper"], rows), "",
        "On this GPU the distances of FP16-32 tend to be too large, because its tensor cores truncate sums.", "",
        f"The exact mode, with the INT8 and the FP16 filter, has {'overlap 1 and error 0 in all' if right else '**errors in some of**'} "
        f"{len(exact)} cases.", ""])


def histogram_of(measurements):
    """Returns the FP16-32 case with the paper's number of dimensions, or else the first case with errors."""
    cases = [m for m in measurements if m["method"] == PAPER_METHOD and m["errors"]]
    return next((m for m in cases if m["dimensions"] == SHOWN_DIMENSIONS), cases[0] if cases else None)


def plot(results):
    found = results["accuracy"]
    shown = histogram_of(found["measurements"]) if found else None
    if shown is None:
        return
    fig, axes = figure(height=3)
    axis = axes[0][0]
    counts, most = shown["errors"]["histogram"], shown["errors"]["most"]
    width = 2 * most / len(counts)
    axis.stairs(counts, [i * width - most for i in range(len(counts) + 1)], fill=True)
    axis.set(xlabel="distance in FP16-32 minus distance in FP64", ylabel="pairs",
             title=f"{shown['data']}, d = {shown['dimensions']}, S = {shown['selectivity']}")
    save(fig, results.plot("accuracy"))
