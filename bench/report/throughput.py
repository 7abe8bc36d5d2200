"""Throughput over rows and dimensions (section 4.2 of the paper)."""
import statistics

from page import PUBLISHED, digits, figure, measured_at, save, table, tflops

NAMES = {"int8": "INT8 filter", "fp16": "FP16 filter"}


def rate(m, part):
    return tflops(m["n"], m["d"], m[part])


def headlines(results):
    """One line: how much faster than cuBLAS at the most rows."""
    found = results["throughput"]
    if found is None:
        return
    measurements = found["measurements"]
    most = max(m["n"] for m in measurements)
    ratios = [rate(m, "seconds") / m["cublas_fp16_tflops"] for m in measurements if m["n"] == most and m["filter"] == "int8"
              and "cublas_fp16_tflops" in m]
    best = max(rate(m, "seconds") for m in measurements)
    yield (f"- {most} rows in GPU memory are joined, exact recheck included, at {min(ratios):.1f} to {max(ratios):.1f} times the rate of "
           f"cuBLAS's FP16 products of the same rows, up to {best:.0f} TFLOPS.")


def section(results):
    found = results["throughput"]
    if found is None:
        return None
    measurements = found["measurements"]
    dimensions = sorted({m["d"] for m in measurements})
    text = ["## Throughput over rows and dimensions", "",
            "The paper's Figure of derived TFLOPS, 2 n n d / t. Rows are clustered, S = 64, and lie in GPU memory; "
            "times are of the whole join there: quantising, filter, and exact recheck. In brackets, as in the paper, the filter "
            "kernel alone. The join computes each pair once, so it can reach twice the rate of its instructions. "
            + measured_at(found), "", results.picture("throughput", "TFLOPS over rows, a line for each number of dimensions"), ""]
    most = max(m["n"] for m in measurements)
    published = PUBLISHED["throughput"]
    for n in sorted({published["n"], most}):
        rows = []
        for d in dimensions:
            here = {m["filter"]: m for m in measurements if m["d"] == d and m["n"] == n}
            if not here:
                continue
            gemm = next((m["cublas_fp16_tflops"] for m in measurements if m["d"] == d and "cublas_fp16_tflops" in m), None)
            cells = [f"{digits(rate(here[f], 'seconds'))} ({digits(rate(here[f], 'filter_seconds'))})" if f in here else ""
                     for f in NAMES]
            ratio = max(rate(m, "seconds") for m in here.values()) / gemm if gemm else None
            row = [d, *cells, digits(gemm), digits(ratio)]
            rows.append(row + [digits(published["tflops"].get(str(d)))] if n == published["n"] else row)
        head = ["d", *NAMES.values(), "cuBLAS FP16 products alone", "best / cuBLAS"]
        text += [f"n = {n}, TFLOPS:", "", table(head + ["paper, A100"] if n == published["n"] else head, rows), ""]
    text += [deviations(measurements), ""]
    return "\n".join(text)


def deviations(measurements):
    shares = [statistics.stdev(m["seconds"]) / statistics.median(m["seconds"]) for m in measurements if m["n"] >= 100000]
    same = all(m["same_pairs"] for m in measurements)
    runs = min(len(m["seconds"]) for m in measurements)
    return (f"Medians of {runs}; from n = 100000 on, the standard deviation is at most {100 * max(shares):.1f} % of the "
            f"median. {'Both filters gave the same pairs everywhere.' if same else '**The filters gave different pairs.**'}")


def plot(results):
    found = results["throughput"]
    if found is None:
        return
    import matplotlib

    measurements = found["measurements"]
    dimensions = sorted({m["d"] for m in measurements})
    best = max(m.get("cublas_fp16_tflops", 0) for m in measurements)
    colours = matplotlib.colormaps["viridis"]
    fig, axes = figure(2, sharey=True)
    for axis, (name, title) in zip(axes[0], NAMES.items()):
        for i, d in enumerate(dimensions):
            points = sorted((m["n"], rate(m, "seconds")) for m in measurements if m["d"] == d and m["filter"] == name)
            axis.plot(*zip(*points), marker="o", markersize=3, color=colours(i / len(dimensions)), label=f"d = {d}")
        axis.axhline(best, color="0.4", linestyle="--", linewidth=1)
        axis.set(xscale="log", xlabel="rows |D|", title=f"{title}, recheck included")
    axes[0][0].set_ylabel("TFLOPS (2 n n d / t)")
    axes[0][0].text(1000, best + 20, "cuBLAS FP16, its best", fontsize=8)
    axes[0][0].legend(fontsize=8)
    save(fig, results.plot("throughput"))
