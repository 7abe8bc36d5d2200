"""Throughput over rows and dimensions (section 4.2 of the paper)."""
import statistics

from page import COLOURS, PUBLISHED, TEXT_COLOUR, digits, figure, measured_at, save, table, tflops

NAMES = {"int8": "INT8", "fp16": "FP16"}


def rate(m, part="seconds"):
    return tflops(m["n"], m["d"], m[part])


def most_rows(measurements):
    return max(m["n"] for m in measurements)


def beside_cublas(measurements):
    """Returns the rates of the INT8 join divided by those of cuBLAS, at the largest number of rows."""
    most = most_rows(measurements)
    return [rate(m) / m["cublas_fp16_tflops"] for m in measurements if m["n"] == most and m["filter"] == "int8" and "cublas_fp16_tflops" in m]


def headlines(results):
    """Yields one line: how much faster than cuBLAS the join is at the largest number of rows."""
    found = results["throughput"]
    if found is None:
        return
    measurements = found["measurements"]
    ratios = beside_cublas(measurements)
    yield (f"- The join of {most_rows(measurements)} rows in GPU memory, including the exact recheck, reaches {max(map(rate, measurements)):.0f} TFLOPS. "
           f"Its rate is {min(ratios):.1f} to {max(ratios):.1f} times that of cuBLAS's FP16 product of the same rows.")


def section(results):
    found = results["throughput"]
    if found is None:
        return None
    measurements = found["measurements"]
    small, most = PUBLISHED["throughput"]["n"], most_rows(measurements)
    rows = []
    for d in sorted({m["d"] for m in measurements}):
        here = {(m["n"], m["filter"]): m for m in measurements if m["d"] == d}
        gemm = next((m["cublas_fp16_tflops"] for m in here.values() if "cublas_fp16_tflops" in m), None)
        best = max(rate(m) for (n, _), m in here.items() if n == most)
        rows.append([d, *(f"{digits(rate(here[small, f]))} ({digits(rate(here[small, f], 'filter_seconds'))})" for f in NAMES),
                     digits(PUBLISHED["throughput"]["tflops"].get(str(d))),
                     *(digits(rate(here[most, f])) if (most, f) in here else "" for f in NAMES),
                     digits(gemm), digits(best / gemm if gemm else None)])
    head = ["d", *(f"{name}, n = {small}" for name in NAMES.values()), f"paper, A100, n = {small}",
            *(f"{name}, n = {most}" for name in NAMES.values()), "cuBLAS FP16", f"best / cuBLAS, n = {most}"]
    return "\n".join([
        "## Throughput over rows and dimensions", "",
        "The rate of a join in TFLOPS is 2 n n d / t. The rows are clustered and are in GPU memory. Times include quantization, the filter and the "
        "exact recheck. The rate of the filter kernel alone is in brackets, as in the paper. The join computes each pair once, so its rate can "
        f"be twice the rate of its instructions. {measured_at(found)}", "",
        results.picture("throughput", "TFLOPS over rows, one line for each number of dimensions"), "",
        table(head, rows), "", deviations(measurements), ""])


def deviations(measurements):
    shares = [statistics.stdev(m["seconds"]) / statistics.median(m["seconds"]) for m in measurements if m["n"] >= 100000]
    same = all(m["same_pairs"] for m in measurements)
    runs = min(len(m["seconds"]) for m in measurements)
    return (f"Medians of {runs} runs. From n = 100000 on, the standard deviation is at most {100 * max(shares):.1f} % of the "
            f"median. {'Both filters gave the same pairs in all cases.' if same else '**The filters gave different pairs.**'}")


def plot(results):
    found = results["throughput"]
    if found is None:
        return
    measurements = found["measurements"]
    best = max(m.get("cublas_fp16_tflops", 0) for m in measurements)
    fig, axes = figure(2, sharey=True)
    for axis, (name, title) in zip(axes[0], NAMES.items()):
        for i, d in enumerate(sorted({m["d"] for m in measurements})):
            points = sorted((m["n"], rate(m)) for m in measurements if m["d"] == d and m["filter"] == name)
            axis.plot(*zip(*points), marker="o", markersize=3, color=COLOURS[i], label=f"d = {d}")
        axis.axhline(best, color=TEXT_COLOUR, linestyle="--", linewidth=1)
        axis.set(xscale="log", xlabel="rows", title=f"{title} filter, including the recheck")
    axes[0][0].set_ylabel("TFLOPS (2 n n d / t)")
    axes[0][0].text(1000, best + 20, "cuBLAS FP16, highest rate", fontsize=8)
    axes[0][0].legend(fontsize=8)
    save(fig, results.plot("throughput"))
