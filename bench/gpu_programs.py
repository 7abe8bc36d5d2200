"""The GPU programs of bench/kernel, built and run, with what they measured."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import TOP, GpuMonitor, spread

KERNEL = TOP / "bench/kernel"


def architecture():
    return os.environ.get("CUDA_ARCHS", "90a").split()[0]


def build(program):
    """Path of a program of bench/kernel, made up to date."""
    subprocess.run(["make", "-s", "-C", KERNEL, f"-j{os.cpu_count()}", f"CUDA_ARCH={architecture()}", f"build/{program}"],
                   check=True)
    return KERNEL / "build" / program


def run(command):
    """Runs a program whose last argument is to be a file for JSON: ({...}, clocks and power meanwhile)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        with GpuMonitor() as monitor:
            status = subprocess.run([*map(str, command), str(path)]).returncode
        if status != 0:
            sys.exit(f"{command[0]} failed with status {status}")
        return json.loads(path.read_text()), monitor.summary()


def join_rows(sizes, d, filters, runs, gemm="fp16", data="clustered", selectivity=64):
    """Rows of d dimensions, so many, joined by join_bench, which compares the pairs of all
    filters: a list of measurements.  gemm: cuBLAS's precisions, at the last size."""
    result, clocks = run([build("join_bench"), "--n", ",".join(map(str, sizes)), "--d", d, "--filters", ",".join(filters), "--runs", runs,
                          "--gemm", gemm, "--data", data, "--selectivity", selectivity, "--json"])
    return [measurement(row, clocks) for row in result["rows"]]


def measurement(row, clocks):
    """What join_bench says of a filter at one shape, with times as spread() records them."""
    device = [a + b for a, b in zip(row["quantise_s"], row["device_s"])]
    kept = ("n", "d", "eps", "filter", "pairs", "candidates", "redone_units", "same_pairs")
    return {**{name: row[name] for name in kept},
            "seconds": spread(device), "filter_seconds": spread(row["filter_s"]),
            "refine_seconds": spread(row["refine_s"]), "quantise_seconds": spread(row["quantise_s"]),
            "cublas_fp16_tflops": row["cublas_tflops"] or None, "cublas_fp64_tflops": row["cublas_fp64_tflops"] or None,
            "clocks": clocks}
