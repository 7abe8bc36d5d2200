"""The GPU programs of bench/kernel, built and run, with what they measured."""
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
    filters: (list of measurements, clocks and power).  gemm: cuBLAS's precisions, at the last size."""
    result, clocks = run([build("join_bench"), "--n", ",".join(map(str, sizes)), "--d", d, "--filters", ",".join(filters), "--runs", runs,
                          "--gemm", gemm, "--data", data, "--selectivity", selectivity, "--json"])
    return [measurement(row) for row in result["rows"]], {"d": d, "sizes": sizes, **clocks}


def measurement(row):
    """What join_bench says of a filter at one shape; cuBLAS's rates where it ran."""
    device = [a + b for a, b in zip(row["quantise_s"], row["device_s"])]
    kept = ("n", "d", "eps", "filter", "pairs", "candidates", "redone_units", "same_pairs")
    rates = {"cublas_fp16_tflops": row["cublas_tflops"], "cublas_fp64_tflops": row["cublas_fp64_tflops"]}
    return {**{name: row[name] for name in kept}, "seconds": device, "filter_seconds": row["filter_s"],
            "refine_seconds": row["refine_s"], "quantise_seconds": row["quantise_s"],
            **{name: rate for name, rate in rates.items() if rate}}
