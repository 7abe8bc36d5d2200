"""Build and run the GPU programs of bench/kernel, and read their measurements."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import TOP, GpuMonitor

KERNEL = TOP / "bench/kernel"


def architecture():
    return os.environ.get("CUDA_ARCHS", "90a").split()[0]


def build(program):
    """Builds a program of bench/kernel if it is out of date; returns its path."""
    subprocess.run(["make", "-s", "-C", KERNEL, f"-j{os.cpu_count()}", f"CUDA_ARCH={architecture()}", f"build/{program}"],
                   check=True)
    return KERNEL / "build" / program


def run(command):
    """Runs a command, to which the path of a file for JSON output is appended.

    Returns the parsed JSON, and the GPU's clocks and power during the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        with GpuMonitor() as monitor:
            status = subprocess.run([*map(str, command), str(path)]).returncode
        if status != 0:
            sys.exit(f"{command[0]} failed with status {status}")
        return json.loads(path.read_text()), monitor.summary()


def join_rows(sizes, d, filters, runs, gemm="fp16", data="clustered", selectivity=64):
    """Joins rows of d dimensions with join_bench, for each number of rows in sizes and with each filter.

    join_bench also checks that all filters give the same pairs.  gemm lists the precisions of
    cuBLAS's matrix product, which is measured with the last size.  Returns (list of
    measurements, clocks and power).
    """
    result, clocks = run([build("join_bench"), "--n", ",".join(map(str, sizes)), "--d", d, "--filters", ",".join(filters), "--runs", runs,
                          "--gemm", gemm, "--data", data, "--selectivity", selectivity, "--json"])
    return [measurement(row) for row in result["rows"]], {"d": d, "sizes": sizes, **clocks}


def measurement(row):
    """Converts a result of join_bench, for one filter and one shape, to a measurement.

    The measurement includes cuBLAS's rates if they were measured.
    """
    device = [a + b for a, b in zip(row["quantise_s"], row["device_s"])]
    copied = ("n", "d", "eps", "filter", "pairs", "candidates", "redone_units", "same_pairs")
    rates = {"cublas_fp16_tflops": row["cublas_tflops"], "cublas_fp64_tflops": row["cublas_fp64_tflops"]}
    return {**{name: row[name] for name in copied}, "seconds": device, "filter_seconds": row["filter_s"],
            "refine_seconds": row["refine_s"], "quantise_seconds": row["quantise_s"],
            **{name: rate for name, rate in rates.items() if rate}}
