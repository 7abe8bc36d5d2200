"""What every benchmark of the evaluation records, and how: environment, clocks, JSON.

A result file, bench/results/<machine>/<name>.json, has

    benchmark      its name
    environment    device, driver, clocks it can reach, versions, revision, date
    settings       the arguments of the run
    clocks         where one program measures much: its clocks and power, from GpuMonitor
    measurements   a list of objects, one per point or bar, each on a line of its own

A time is the list of all its runs, in seconds, in the order in which they ran.  What
follows from the runs, medians, rates and ratios, is left to whoever reads them.

bench/report/ makes bench/evaluation.md of these files and of nothing else.
"""
import contextlib
import csv
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

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "faiss-cpu", "opencv-python-headless")


def output(*command):
    """What a command prints; None where it is missing or fails."""
    try:
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def gpu():
    """{gpu, driver, ...} of the first GPU, or {}."""
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
    """The revision measured; FASTED_REVISION where there is no repository."""
    return os.environ.get("FASTED_REVISION") or output("git", "-C", str(TOP), "describe", "--always", "--dirty")


@functools.cache
def machine():
    """What does not change while a benchmark runs; asking for it takes a while."""
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
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def machine_name(env):
    """The folder of a machine's results: its GPU, or its processor and their number."""
    return folder_name(env.get("gpu") or f"{env['processor']} {env['processors']} cores")


def text(result):
    """JSON of an object, a line for each of its entries, and for each entry of these: so a
    line has one measurement, and two runs can be compared line by line."""
    def entries(value):
        if isinstance(value, dict) and value:
            return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items()) + "\n }"
        if isinstance(value, list) and value:
            return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
        return json.dumps(value)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {entries(value)}" for key, value in result.items()) + "\n}\n"


def save(machine, name, result):
    """Writes a result file of a machine, whose name is that of its folder, and returns its path."""
    path = RESULTS / machine / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(result))
    return path


def write(benchmark, settings, measurements, clocks=None, **more):
    """Writes what a benchmark of the evaluation measured; more: of the environment."""
    env = environment(**more)
    path = save(machine_name(env), benchmark,
                {"benchmark": benchmark, "environment": env, "settings": settings,
                 **({"clocks": clocks} if clocks else {}), "measurements": measurements})
    print(f"wrote {path.relative_to(TOP)}", flush=True)


class GpuMonitor:
    """SM clock (MHz) and power (W) of the GPU while a benchmark runs, ten times a second."""

    def __enter__(self):
        self.samples = []
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,utilization.gpu", "--format=csv,noheader,nounits",
                 "-lms", "100"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()
        return self

    def _read(self):
        for row in csv.reader(self.process.stdout):
            with contextlib.suppress(ValueError):
                self.samples.append(tuple(float(value) for value in row))

    def __exit__(self, *_):
        if hasattr(self, "process"):
            self.process.terminate()
            self.process.wait()
            self.thread.join()

    def summary(self):
        """{what: [least, median, most]} of the moments at which the GPU was busy; {} without any."""
        busy = [sample for sample in self.samples if sample[2] > 50]
        if not busy:
            return {}
        return {name: [min(values), statistics.median(values), max(values)]
                for name, values in zip(("sm_clock_mhz", "power_w"), zip(*((clock, power) for clock, power, _ in busy)))}
