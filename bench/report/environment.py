"""What the numbers were measured on."""
from page import table

BENCHMARKS = ("throughput", "optimizations", "brute_force", "profile", "real_world_large", "real_world", "accuracy")
SHOWN = {"gpu": "GPU", "driver": "driver", "gpu_memory": "GPU memory", "power_limit": "power limit", "sm_clock_most": "highest SM clock",
         "processor": "processor", "processors": "processors", "memory_gib": "memory, GiB", "system": "system", "cuda": "CUDA",
         "compiler": "compiler", "postgresql": "PostgreSQL", "pgvector": "pgvector"}


def section(results):
    files = [results[name] for name in BENCHMARKS if results[name]]
    merged = {}
    for found in files:
        merged.update({key: value for key, value in found["environment"].items() if value})
    rows = [[title, merged[key]] for key, title in SHOWN.items() if key in merged]
    rows += [[name, version] for name, version in merged.get("python", {}).items()]
    return "\n".join(["## Measured on", "", table(["", ""], rows), ""])
