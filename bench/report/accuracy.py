"""Accuracy of the paper's FP16-32 and of the exact mode (section 4.6 of the paper, Tables 8 and 9)."""
from page import digits, figure, measured_at, paper_set, published, save, table

PAPER_METHOD = "FP16-32 of the paper"
SHOWN_DIMENSIONS = 512          # of Cifar60K, which the paper shows


def number(value):
    """Exactly one is 1; what only rounds to it is not."""
    return "1" if value == 1 else f"{value:.6f}"


def headlines(results):
    """The paper's mode beside the exact one."""
    found = results["accuracy"]
    if found is None:
        return
    paper = [m for m in found["measurements"] if m["method"] == PAPER_METHOD]
    wrong = [m for m in found["measurements"] if m["method"] != PAPER_METHOD and (m["missed"] or m["spurious"] or m["overlap"] != 1)]
    yield (f"- Of {sum(m['true_pairs'] for m in paper)} pairs, the paper's FP16-32 misses {sum(m['missed'] for m in paper)} and invents "
           f"{sum(m['spurious'] for m in paper)}; the exact mode " + ("none." if not wrong else "**is wrong, too.**"))


def section(results):
    found = results["accuracy"]
    if found is None:
        return None
    measurements = found["measurements"]
    rows = []
    for m in measurements:
        errors = m["errors"] or {}
        paper = published("overlap", paper_set(None, m["dimensions"]), m["selectivity"])
        rows.append([m["data"], m["rows"], m["dimensions"], m["selectivity"], m["method"], m["true_pairs"], number(m["overlap"]),
                     m["missed"], m["spurious"], digits(errors.get("mean")), digits(errors.get("deviation")),
                     digits(errors.get("most")), paper if m["method"] == PAPER_METHOD and paper else ""])
    exact = [m for m in measurements if m["method"] != PAPER_METHOD]
    right = all(m["overlap"] == 1 and not m["missed"] and not m["spurious"] and m["errors"] and m["errors"]["most"] == 0
                for m in exact)
    return "\n".join([
        "## Accuracy", "",
        "Truth is the join in FP64, `fasted.filter = fp64`. Overlap is the paper's Equation 3; the error is that of the distances of pairs "
        "that both have. The paper's overlap is that of its real set of as many dimensions, for comparison; "
        "[our sets](../bench/datasets/README.md) are others. " + measured_at(found), "",
        results.picture("accuracy", "Histogram of the error of distances"), "",
        table(["data", "n", "d", "S", "method", "pairs", "overlap", "missed", "spurious", "error, mean", "deviation", "largest",
               "overlap in the paper"], rows), "",
        "FP16-32's distances lean to the large side on this GPU: its tensor cores truncate sums, which makes products too small.", "",
        f"The exact mode, with each filter: {'overlap 1 and error 0 in all' if right else '**not exact in all**'} "
        f"{len(exact)} cases.", ""])


def histogram_of(measurements):
    """The FP16-32 case shown: of as many dimensions as in the paper, or else the first."""
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
    axis.set(xlabel="error of the distance, FP16-32 less FP64", ylabel="pairs",
             title=f"{shown['data']}, d = {shown['dimensions']}, S = {shown['selectivity']}")
    save(fig, results.plot("accuracy"))
