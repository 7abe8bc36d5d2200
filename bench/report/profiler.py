"""The profiler table (section 4.4 of the paper)."""
from page import PUBLISHED, digits, measured_at, table

METRICS = {
    "tensor_percent": "tensor pipe, %",
    "l2_hit_percent": "L2 hit rate, %",
    "dram_percent": "DRAM throughput, %",
    "shared_percent": "shared memory throughput, %",
    "clock": "clock, GHz",
}
NAMES = {"int8": "INT8 (wgmma)", "fp16": "FP16 (wgmma)", "mma.sync": "FP16 (mma.sync)"}


def cell(launch, metric):
    value = launch.get(metric)
    if value is None:
        return ""
    return f"{value / 1e9:.2f}" if metric == "clock" else digits(value)


def section(results):
    found = results["profile"]
    if found is None:
        return None
    launches = {(m["filter"], m["d"]): m for m in found["measurements"]}
    rows = [[title, d, *(cell(launches[name, d], metric) for metric in METRICS)] for name, title in NAMES.items()
            for d in sorted({d for f, d in launches if f == name})]
    rows += [["paper, A100", d, *(cell(launch, metric) for metric in METRICS)] for d, launch in PUBLISHED["profile"].items()]
    sizes = sorted({m["n"] for m in found["measurements"]})
    return "\n".join([
        "## Profiler", "",
        f"Nsight Compute on the longest launch of each filter, n = {' and '.join(map(str, sizes))}, without fixed clocks. "
        f"Shared memory throughput is that of its data pipe. {measured_at(found)}",
        "", table(["filter", "d", *METRICS.values()], rows), ""])
