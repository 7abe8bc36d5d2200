#!/usr/bin/env python3
"""Profile the filters with Nsight Compute (the paper's section 4.4, profiler table).

    bench/profile/run.py [--n 100000] [--dimensions 128 256 4096]

The filters are INT8 and FP16 with wgmma, and FP16 (the paper's design) and FP64 with
mma.sync.  The longest kernel launch of each filter is recorded.  The GPU's clocks are not
changed.
"""
import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_programs  # noqa: E402
from record import output, write  # noqa: E402

# {quantity: alternative names of the metric, which depend on the GPU}
METRICS = {
    "duration": ["gpu__time_duration.sum"],
    "dram_percent": ["dram__throughput.avg.pct_of_peak_sustained_elapsed"],
    "shared_percent": ["l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"],
    "shared_wavefronts": ["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"],
    "bank_conflicts": ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"],
    "l2_hit_percent": ["lts__t_sector_hit_rate.pct"],
    "tensor_percent": ["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                       "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"],
    "fp64_percent": ["sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
                     "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"],
    "clock": ["sm__cycles_elapsed.avg.per_second"],
}

KERNELS = "regex:^(wgmma_kernel|filter_kernel)"


def known_metrics():
    """Returns {quantity: name of the metric on this GPU}."""
    listed = output("ncu", "--query-metrics")
    if not listed:
        sys.exit("Nsight Compute (ncu) is not available, or does not support this GPU")
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    found = {}
    for what, choices in METRICS.items():
        usable = [choice for choice in choices if choice.split(".")[0] in names]
        if usable:
            found[what] = usable[0]
        else:
            print(f"this GPU has no metric for {what}", flush=True)
    return found


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def in_seconds_and_hertz(value, unit):
    scales = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1,
              "Ghz": 1e9, "GHz": 1e9, "cycle/nsecond": 1e9, "cycle/ns": 1e9, "Mhz": 1e6, "MHz": 1e6, "cycle/usecond": 1e6,
              "cycle/us": 1e6, "cycle/second": 1, "cycle/s": 1, "hz": 1, "Hz": 1}
    return value * scales.get(unit, 1) if value is not None else None


def launches(log, metrics):
    """Yields a dictionary for each kernel launch in ncu's CSV output."""
    lines = [line for line in Path(log).read_text().splitlines() if line.startswith('"')]
    header, units, *rows = list(csv.reader(lines))
    for row in rows:
        named = dict(zip(header, row))
        unit = dict(zip(header, units))
        launch = {what: number(named.get(name, "")) for what, name in metrics.items()}
        for what in ("duration", "clock"):
            launch[what] = in_seconds_and_hertz(launch.get(what), unit.get(metrics.get(what), ""))
        yield {"kernel": named["Kernel Name"], **launch}


def profile(metrics, n, d, filters, *options):
    """Profiles join_bench with one filter; returns the longest launch of each kernel."""
    program = gpu_programs.build("join_bench")
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/ncu.csv"
        subprocess.run(["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--log-file", log,
                        "--kernel-name-base", "function", "-k", KERNELS, "--metrics", ",".join(metrics.values()),
                        program, "--n", str(n), "--d", str(d), "--filters", filters, "--runs", "1", "--gemm", "none", *options],
                       check=True)
        longest = {}
        for launch in launches(log, metrics):
            known = longest.get(launch["kernel"])
            if known is None or (launch["duration"] or 0) > (known["duration"] or 0):
                longest[launch["kernel"]] = launch
    for launch in longest.values():
        if launch.get("shared_wavefronts") is not None:
            conflicts = launch.get("bank_conflicts") or 0
            launch["bank_conflict_percent"] = 100 * conflicts / max(1, launch["shared_wavefronts"])
    return list(longest.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100000, help="number of rows")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 256, 4096], help="numbers of dimensions")
    args = parser.parse_args()

    metrics = known_metrics()
    measurements = []
    for d in args.dimensions:
        cases = [("int8", args.n), ("fp16", args.n), ("fp16", args.n, "--kernel", "mma.sync"), ("fp64", args.n)]
        for name, n, *options in cases:
            found = profile(metrics, n, d, name, *options)
            if not found:
                sys.exit(f"Nsight Compute reported no launch of {name} at d = {d}")
            longest = max(found, key=lambda launch: launch["duration"] or 0)
            measurements.append({"filter": options[-1] if options else name, "n": n, "d": d, **longest})
            write("profile", vars(args), measurements)


if __name__ == "__main__":
    main()
