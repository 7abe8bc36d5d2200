"""Record the results of the benchmarks: environment, GPU clocks, and JSON files.

A results file, bench/results/<machine>/<name>.json, contains:

    benchmark      the name of the benchmark
    environment    hardware, driver, maximum clocks, software versions, revision, date
    settings       the arguments of the run
    clocks         clocks and power of the GPU during each program, from GpuMonitor (optional)
    measurements   a list of objects, each on a line of its own

A measured time is recorded as the list of all runs, in seconds and in order.  The files do
not contain medians, rates or ratios, which the reader computes.

bench/report/ creates bench/evaluation.md from these files alone.
"""
import contextlib
import functools
import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
RESULTS = TOP / "bench/results"
REPEATS = 5
# storage of the vectors in tables (PLAIN, MAIN, ...); if it is not set, that of CREATE TABLE
STORAGE = os.environ.get("FASTED_BENCH_STORAGE", "").upper()

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "faiss-cpu", "semhash", "usearch", "hdbscan", "fast-hdbscan", "pynndescent", "cuml-cu13", "cuhc",
            "opencv-python-headless")


def output(*command):
    """Returns the output of a command, or None if the command is missing or fails."""
    try:
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def gpu():
    """Describes the first GPU: {gpu, driver, ...}, or {} if there is none."""
    names = ("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm", "clocks.max.mem")
    line = output("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader")
    if not line:
        return {}
    values = [value.strip() for value in line.splitlines()[0].split(",")]
    return dict(zip(("gpu", "driver", "gpu_memory", "power_limit", "sm_clock_most", "memory_clock_most"), values))


def processor():
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1).strip() if found else os.uname().machine


def packages():
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def revision():
    """Returns the measured revision: FASTED_REVISION if it is set, otherwise that of the repository."""
    return os.environ.get("FASTED_REVISION") or output("git", "-C", str(TOP), "describe", "--always", "--dirty")


@functools.cache
def machine():
    """Describes the machine and its software.  The result is cached because it is slow to determine."""
    nvcc = output("nvcc", "--version")
    pages, page = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    return {
        **gpu(),
        "processor": processor(),
        "processors": os.cpu_count(),
        "memory_gib": round(pages * page / 2**30),
        "system": output("sh", "-c", ". /etc/os-release; echo $PRETTY_NAME"),
        "cuda": nvcc.splitlines()[-1] if nvcc else None,
        "compiler": (output("cc", "--version") or "").split("\n")[0],
        "python": packages(),
        "revision": revision(),
        "date": time.strftime("%Y-%m-%d"),
    }


def environment(**more):
    return {**machine(), **more}


def folder_name(name):
    """Converts a name to one that is suitable for a folder: lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def machine_name(env):
    """Returns the folder of a machine's results, named after its GPU, or after its CPU and number of cores."""
    return folder_name(env.get("gpu") or f"{env['processor']} {env['processors']} cores")


def text(result):
    """Returns an object as JSON text, with one line for each element of its entries.

    Therefore each measurement has a line of its own, and files can be compared line by line.
    """
    def entries(value):
        if isinstance(value, dict) and value:
            return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items()) + "\n }"
        if isinstance(value, list) and value:
            return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
        return json.dumps(value)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {entries(value)}" for key, value in result.items()) + "\n}\n"


def path_of(machine, name):
    """Returns the path of a results file; a storage that was chosen has files of its own."""
    return RESULTS / machine / f"{'_'.join([name, STORAGE.lower()]).strip('_')}.json"


def save(machine, name, result):
    """Writes a results file to the folder of a machine; returns its path."""
    path = path_of(machine, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(result))
    return path


def write(benchmark, settings, measurements, clocks=None, **more):
    """Writes the results of a benchmark of the evaluation; "more" is added to the environment."""
    env = environment(**more)
    path = save(machine_name(env), benchmark,
                {"benchmark": benchmark, "environment": env, "settings": settings,
                 **({"clocks": clocks} if clocks else {}), "measurements": measurements})
    print(f"wrote {path.relative_to(TOP)}", flush=True)


class GpuMonitor:
    """Samples the GPU's SM clock (MHz), power (W) and memory in use (MiB) ten times per second while a benchmark runs."""

    def __enter__(self):
        self.samples = []
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,utilization.gpu,memory.used", "--format=csv,noheader,nounits",
                 "-lms", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self._add(self.process.stdout.readline())       # before the benchmark begins
            self.thread = threading.Thread(target=lambda: [self._add(line) for line in self.process.stdout], daemon=True)
            self.thread.start()
        return self

    def _add(self, line):
        with contextlib.suppress(ValueError):
            self.samples.append(tuple(map(float, line.split(","))))

    def __exit__(self, *_):
        if hasattr(self, "process"):
            self.process.terminate()
            self.process.wait()
            self.thread.join()

    def summary(self):
        """Returns {quantity: [minimum, median, maximum]} of the samples with a busy GPU, or {} if there are none."""
        busy = [sample for sample in self.samples if sample[2] > 50]
        if not busy:
            return {}
        return {name: [min(values), statistics.median(values), max(values)]
                for name, values in zip(("sm_clock_mhz", "power_w"), zip(*((clock, power) for clock, power, *_ in busy)))}

    def memory(self):
        """Returns the increase of the memory in use (MiB), from the first sample to the largest, or None without samples."""
        used = [sample[3] for sample in self.samples]
        return round(max(used) - used[0]) if used else None
