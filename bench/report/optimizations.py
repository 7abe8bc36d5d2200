"""The optimizations of the paper, omitted one at a time (section 4.3 of the paper, Table 6)."""
import statistics

from page import PUBLISHED, digits, measured_at, table, tflops

EVERY = "all of the paper's optimisations"
PAPER_DIMENSIONS = 4096
# names in the result file that need other words in the table
TITLES = {EVERY: "none: all of the paper's", "past the paper: three stages": "beyond the paper: three stages",
          "past the paper: and the upper triangle only": "beyond the paper: three stages, upper triangle only"}


def medians(measurements, d):
    """Returns {variant: seconds} at d dimensions."""
    return {m["variant"]: statistics.median(m["seconds"]) for m in measurements if m["d"] == d}


def section(results):
    found = results["optimizations"]
    if found is None:
        return None
    measurements = found["measurements"]
    n = measurements[0]["n"]
    other = min(m["d"] for m in measurements)
    here, there = medians(measurements, PAPER_DIMENSIONS), medians(measurements, other)
    published = PUBLISHED["optimizations"]
    rows = []
    for variant, seconds in here.items():
        paper = published.get(variant)
        rows.append([TITLES.get(variant, variant.removesuffix(" left out")), digits(tflops(n, PAPER_DIMENSIONS, [seconds])),
                     f"{here[EVERY] / seconds:.2f}", digits(paper), f"{paper / published[EVERY]:.2f}" if paper else "",
                     f"{there[EVERY] / there[variant]:.2f}"])
    return "\n".join([
        "## Optimizations", "",
        f"The paper's design (mma.sync, FP16-32, all pairs computed twice) with one optimization omitted, for n = {n} random rows. \"Of all\" is the rate "
        f"divided by the rate with all of the paper's optimizations. {measured_at(found)}", "",
        table(["omitted", f"TFLOPS, d = {PAPER_DIMENSIONS}", "of all", "paper, A100, TFLOPS", "of all, paper", f"of all, d = {other}"], rows), "",
        "On an H200 the swizzled layout matters more than on an A100, because the tensor cores read their operands faster. The largest single gain "
        "is beyond the paper: computing only the upper triangle of the distance matrix.\n"])
