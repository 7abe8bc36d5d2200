#!/usr/bin/env python3
"""Predict the time of a join that is distributed over m machines with g GPUs each.

    bench/scale/model.py [--network 1.25e9] [--runs 2000]

The script prints the tables of doc/internals/scaling.md.  The rates were measured; a comment
gives the source of each.  The rates of the network (10 Gbit/s) and of temporary files are
assumptions.  A simulation varies the speed of reading and computing of each worker randomly
(log-normal, 5 %).  The join ends when the slowest worker is done.
"""
import argparse
import math
import random

# Seconds per row and per byte of its vector in which a worker reads the streams of all nodes and
# merges, hashes and stores the rows.  Measured with 240000 x 128 and 60000 x 768
# (bench/results/amd-epyc-2-cores/scale.md).  The nodes need the same time to send their rows.
READ_ROW = 0.1e-6
READ_BYTE = 1.6e-9
# The same for a join that is not distributed and reads through Citus; same source.
CITUS_ROW = 0.2e-6
CITUS_BYTE = 4.5e-9
# Seconds per row in which the coordinator processes a key and a hash; same source.
KEY_ROW = 0.8e-6
# n n d per second of one core with AVX-512 and VNNI; same source, 150000 x 128.
CPU_RATE = 150e3 * 150e3 * 128 / 8.2
# n n d per second of one NVIDIA H200, including the recheck: 1000000 x 960 in 643 ms
# (bench/results/two-nvidia-h200/devices.md).
GPU_RATE = 1e6 * 1e6 * 960 / 0.643
# Bytes per second that are copied to one GPU; same source.
UPLOAD = 55e9
# Bytes of a GPU's 141 GB that are available for rows, with 6 bytes per dimension and 24 per row.
GPU_BYTES = 120e9
# Bytes per second of a temporary file, read or written: an assumption, for one NVMe drive.
FILE = 3e9
# Seconds for connections, their setup, and planning on each worker.
START = 0.05
# Seconds in which a worker's session initializes a GPU.
CONTEXT = 0.7
# Standard deviation of the logarithm of a worker's speed.
CHANCE = 0.05

MACHINES = (1, 2, 4, 8, 16, 32)
SETS = ((10**6, 128), (10**6, 960), (10**7, 128), (10**7, 768), (10**8, 768))
ENGINES = ({"name": "16 cores", "rate": 16 * CPU_RATE, "gpus": 0},
           {"name": "1 GPU", "rate": GPU_RATE, "gpus": 1},
           {"name": "8 GPUs", "rate": 8 * GPU_RATE, "gpus": 8})


def panels(n, d):
    """Returns how often a GPU loads the rows: once, or (T + 1) / 2 times for T panels."""
    outer = math.ceil(n * (6 * d + 24) / (0.8 * GPU_BYTES))
    return 1.0 if n * (6 * d + 24) <= GPU_BYTES else (outer + 1) / 2


def parts(n, d, m, engine, network):
    """Returns the seconds of each part.  The network is concurrent with reading, and the keys with everything."""
    vectors = 4.0 * n * d
    p = {"read": n * READ_ROW + vectors * READ_BYTE if m > 1 else n * CITUS_ROW + vectors * CITUS_BYTE,
         "keys": n * KEY_ROW, "start": 0.0 if m == 1 else START + (CONTEXT if engine["gpus"] else 0.0),
         # each node sends its n / m rows to the other nodes, and receives theirs
         "network": vectors * (m - 1) / m / network,
         "compute": n * n * d / engine["rate"] / m, "load": 0.0}
    if engine["gpus"]:
        loads = panels(n, d)
        p["load"] = loads * vectors / UPLOAD if loads == 1.0 else loads * vectors / UPLOAD + (1 + loads) * vectors / FILE
    return p


def whole(p, m, rng):
    """Simulates a join; returns its seconds.  A table that fits into a GPU's memory is loaded while it is read."""
    last = 0.0
    for _ in range(m):
        read = max(p["read"] * rng.lognormvariate(0, CHANCE), p["network"], p["load"] if p["load"] < p["read"] / 10 else 0.0)
        load = p["load"] if p["load"] >= p["read"] / 10 else 0.0
        last = max(last, read + load + p["compute"] * rng.lognormvariate(0, CHANCE))
    return p["start"] + max(last, p["keys"] if m > 1 else 0.0)


def median(values):
    return sorted(values)[len(values) // 2]


def text(seconds):
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def row(n, d, engine, args, rng):
    times = []
    for m in MACHINES:
        p = parts(n, d, m, engine, args.network)
        times.append(median([whole(p, m, rng) for _ in range(args.runs)]))
    p = parts(n, d, 16, engine, args.network)
    enough = next((m for m, t in zip(MACHINES, times) if t < 1.1 * min(times)), MACHINES[-1])
    return (f"| {n} x {d} | {engine['name']} | " + " | ".join(text(t) for t in times) + f" | {enough} "
            f"| {text(p['read'])}, {text(p['network'])}, {text(p['load'])}, {text(p['compute'])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes per second of a node in each direction")
    parser.add_argument("--runs", type=int, default=1000, help="number of simulated runs, of which the median is printed")
    args = parser.parse_args()
    rng = random.Random(1)
    print("| n x d | each machine | " + " | ".join(f"{m}" for m in MACHINES)
          + " | enough | with 16: reading, network, loading, computing |")
    print("|---|---|" + "---|" * (len(MACHINES) + 2))
    for n, d in SETS:
        for engine in ENGINES:
            print(row(n, d, engine, args, rng))


if __name__ == "__main__":
    main()
