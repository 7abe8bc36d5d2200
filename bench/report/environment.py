"""The hardware and software of the measurements."""
from page import table

BENCHMARKS = ("throughput", "brute_force", "profile", "real_world", "over_rows", "real_world_large", "large_on_cpu")
SHOWN = {"gpu": "GPU", "driver": "driver", "power_limit": "power limit", "sm_clock_most": "highest SM clock",
         "processor": "CPU", "processors": "CPU cores", "memory_gib": "memory, GiB", "system": "system", "cuda": "CUDA",
         "compiler": "compiler", "postgresql": "PostgreSQL", "pgvector": "pgvector"}


def section(results):
    merged = {}
    for found in (results[name] for name in BENCHMARKS if results[name]):
        merged.update({key: value for key, value in found["environment"].items() if value})
    rows = [[title, merged[key]] for key, title in SHOWN.items() if key in merged]
    rows.append(["Python packages", ", ".join(f"{name} {version}" for name, version in merged.get("python", {}).items())])
    return "\n".join(["## Measured on", "",
                      "The machine with the GPU. Each result file has the revision of fasted and the settings of its measurements.", "",
                      table(["", ""], rows), ""])
