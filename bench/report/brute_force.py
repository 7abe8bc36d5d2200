"""Brute force over the dimensions, beside FP64 (section 4.4 of the paper)."""
from page import COLOURS, PUBLISHED, TEXT_COLOUR, digits, figure, measured_at, save, table, tflops

FILTERS = {"int8": "INT8 filter", "fp16": "FP16 filter", "fp64": "FP64 filter"}


def rate(m):
    return tflops(m["n"], m["d"], m["seconds"])


def section(results):
    found = results["brute_force"]
    if found is None:
        return None
    measurements = found["measurements"]
    published = PUBLISHED["ted_join_brute"]
    rows = []
    for d in sorted({m["d"] for m in measurements}):
        here = {m["filter"]: m for m in measurements if m["d"] == d}
        any_of = next(iter(here.values()))
        rows.append([d, *(digits(rate(here[f])) if f in here else "" for f in FILTERS),
                     digits(any_of.get("cublas_fp16_tflops")), digits(any_of.get("cublas_fp64_tflops")),
                     digits(published.get(str(d)))])
    same = all(m["same_pairs"] for m in measurements)
    return "\n".join([
        "## Brute force, tensor cores beside FP64", "",
        f"Rates in TFLOPS for n = {measurements[0]['n']}. All joins are exact and include the recheck. The products of cuBLAS include neither "
        f"comparisons nor results. {measured_at(found)}", "",
        results.picture("brute_force", "TFLOPS over dimensions"), "",
        table(["d", *FILTERS.values(), "cuBLAS FP16", "cuBLAS FP64", "TED-Join-Brute FP64 (paper, A100)"], rows), "",
        "All filters gave the same pairs with the same bits." if same else "**The filters gave different pairs.**",
        "The FP64 filter uses FP64 tensor cores, as TED-Join-Brute does, and computes each pair once. It serves to check the others.", ""])


def plot(results):
    found = results["brute_force"]
    if found is None:
        return
    fig, axes = figure()
    axis = axes[0][0]
    for name, title in FILTERS.items():
        points = sorted((m["d"], rate(m)) for m in found["measurements"] if m["filter"] == name)
        axis.plot(*zip(*points), marker="o", markersize=4, label=title)
    for key, title, colour in (("cublas_fp16_tflops", "cuBLAS FP16 product", TEXT_COLOUR), ("cublas_fp64_tflops", "cuBLAS FP64 product", COLOURS[6])):
        points = sorted({(m["d"], m[key]) for m in found["measurements"] if key in m})
        axis.plot(*zip(*points), linestyle="--", color=colour, label=title)
    axis.set(xscale="log", yscale="log", xlabel="dimensions d", ylabel="TFLOPS (2 n n d / t)")
    axis.set_xticks([64, 256, 1024, 4096], ["64", "256", "1024", "4096"])
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(fig, results.plot("brute_force"))
