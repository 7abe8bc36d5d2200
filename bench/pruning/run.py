#!/usr/bin/env python3
"""Compare an engine with pruning and the same engine without pruning.

    bench/pruning/run.py [--parts sets rows eps] [--only gist-like ...] [--add] [--threads 2] [--repeats 3]
                         [--rows 12500 25000 50000 100000] [--engine fasted_cuda.so]

Both modes run in turn in one program.  The elapsed time runs from the last staged row to the
last pair: encoding, projection, ordering, packing, filter, recheck, and fetching the pairs.
The CPU time is the sum over all threads; it is the better measure on a machine that does
other work.  The results record the load of the machine.  All runs of a join must return the
same pairs and bitwise identical distances.  On a GPU the engine only counts the pairs, so that
the time does not include work of the CPU, and all counts must be equal.

  sets   data sets of bench/datasets with several eps; missing data sets are skipped
  rows   growth of the time with the number of rows
  eps    growth of the time with eps

A suffix modifies the norms of a data set.  NAME+long multiplies one row in a hundred by 3 to
30, NAME+heavy multiplies rows by log-normally distributed factors, and NAME+sphere scales
rows to norm 1.  The benchmark needs a C compiler and numpy, but no PostgreSQL.  It writes JSON
and a page to bench/results/<machine>/.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "report")]
import datasets  # noqa: E402
import pruning  # noqa: E402
import record  # noqa: E402
from datasets import eps as neighbours  # noqa: E402

COSINE = 0.05                   # cosine distance of near-duplicates: cosine 0.95
SAME = 0.31623                  # Euclidean distance of unit vectors with this cosine, rounded up

# (data set, maximum number of rows, metric, [eps, or the mean number of neighbours as a string])
SETS = (
    ("gist-like", 100000, "l2", [0.28, 0.40, 0.568]),
    ("tiny-like", 100000, "l2", [0.10, 0.20]),
    ("debian-text", 64512, "l2", [0.2, 0.3162, 0.78]),
    ("wallpaper-sift", 100000, "l2", [93, 182]),
    ("embedding-512", 40000, "l2", [0.5]),
    ("debian-minilm", 65536, "cosine", [COSINE]),
    ("debian-minilm", 65536, "l2", [SAME]),
    ("debian-wordllama", 194383, "cosine", [COSINE]),
    ("debian-wordllama", 194383, "l2", [SAME]),
    ("embedding-128", 100000, "l2", ["4"]),
    ("embedding-128+long", 100000, "l2", ["4"]),
    ("normal-128", 60000, "l2", ["64"]),
    ("normal-128", 20000, "l2", ["64"]),
    ("normal-96+sphere", 50000, "cosine", ["8"]),
    ("normal-256+heavy", 50000, "l2", ["8"]),
    ("embedding-256+heavy", 50000, "l2", ["8"]),
    ("uniform-192", 50000, "l2", ["8"]),
    ("sift-like", 50000, "l2", ["64"]),
)
ROWS = (("tiny-like", "l2", 0.10), ("debian-wordllama", "cosine", COSINE))
EPS = (("tiny-like", 50000, "l2", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
       ("debian-wordllama", 50000, "cosine", [0.01, 0.02, 0.05, 0.1, 0.15, 0.2]))

# the same for a GPU
GPU_SETS = (
    ("gist-like", 1000000, "l2", ["64", "1"]),
    ("minilm-like", 1000000, "cosine", [COSINE]),
    ("wordllama-like", 1000000, "cosine", [COSINE]),
    ("embedding-128", 100000, "l2", ["4"]),
    ("embedding-128+long", 100000, "l2", ["4"]),
    ("normal-128", 1000000, "l2", ["64"]),
    ("normal-384", 1000000, "l2", ["64"]),
    ("tiny-like", 5000000, "l2", ["64"]),
    ("sift-like", 10000000, "l2", ["64"]),
)
GPU_ROWS = (("tiny-like", "l2", 0.10), ("minilm-like", "cosine", COSINE))
GPU_EPS = (("tiny-like", 1000000, "l2", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
           ("minilm-like", 1000000, "cosine", [0.01, 0.02, 0.05, 0.1, 0.15, 0.2]))
ONCE = {True: 5e15, False: 2e13}  # n n d above which a join is measured only once, on a GPU (True) and on a CPU (False)


def build(directory):
    program = Path(directory) / "engine"
    sources = sorted([*(TOP / "src/cpu").glob("*/*.c"), *(TOP / "src/engine").glob("*.c")])
    subprocess.run(["cc", "-std=gnu11", "-O2", "-ffp-contract=off", "-pthread", "-o", program, HERE / "engine.c",
                    *sources, "-lm", "-ldl"], check=True)
    return program


def change_norms(x, how):
    """Multiplies the rows by factors that the suffix "how" of the data set selects."""
    random = numpy.random.default_rng(1)
    lengths = numpy.ones(len(x))
    if how == "long":
        lengths[random.permutation(len(x))[:len(x) // 100]] = random.uniform(3, 30, len(x) // 100)
    elif how == "heavy":
        lengths = numpy.exp(random.normal(0, 1, len(x)))
    elif how == "sphere":
        lengths = 1 / numpy.linalg.norm(x, axis=1)
    else:
        sys.exit(f'unknown suffix "{how}" of a data set: expected long, heavy or sphere')
    return (x * lengths[:, None]).astype(numpy.float32)


def load(name, rows):
    """Returns at most the given number of rows of a data set, or None if its file is missing."""
    data, _, how = name.partition("+")
    try:
        real = datasets.path_of(data) is not None
        x = datasets.load(data)[:rows] if real else datasets.load(data, rows)
    except (datasets.MissingFile, RuntimeError) as missing:
        print(f"skipping {name}: {str(missing).splitlines()[0]}", flush=True)
        return None
    return numpy.ascontiguousarray(change_norms(x, how) if how else x, dtype=numpy.float32)


def measure(program, args, part, name, x, metric, eps):
    """Yields one measurement for each eps."""
    wanted = [int(one) for one in eps if isinstance(one, str)]
    found = dict(zip(map(str, wanted), neighbours.distances(x, wanted, max(200, min(1000, 10**9 // len(x)))) if wanted else ()))
    values = [one if one not in found else found[one] if metric == "l2" else found[one] ** 2 / 2 for one in eps]
    repeats = 1 if len(x)**2 * x.shape[1] > ONCE[bool(args.engine)] else args.repeats
    with tempfile.NamedTemporaryFile(suffix=".rows") as file:
        x.tofile(file.name)
        command = [program, file.name, *x.shape, metric, "count" if args.engine else "pairs", args.threads, repeats,
                   *map(repr, map(float, values))]
        library = {"FASTED_ENGINE_LIBRARY": str(args.engine.resolve())} if args.engine else {}
        with subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE, env={**os.environ, **library}) as engine:
            for line in engine.stdout:
                found = {"part": part, "data": name, "rows": len(x), "dimensions": x.shape[1], "metric": metric,
                         **({"engine": "cuda"} if args.engine else {}), "revision": record.revision(), "load": round(os.getloadavg()[0], 1), **json.loads(line)}
                if not found["same_pairs"]:
                    sys.exit(f"{name}, eps {found['eps']}: pruning changed the pairs")
                print(pruning.text_of(found), flush=True)
                yield found
        if engine.returncode:
            sys.exit(f"{name}: the engine failed")


def jobs(args):
    """Yields (part, data set, rows, metric, [eps])."""
    for data, rows, metric, eps in (GPU_SETS if args.engine else SETS) if "sets" in args.parts else ():
        yield "sets", data, rows, metric, eps
    for data, metric, eps in (GPU_ROWS if args.engine else ROWS) if "rows" in args.parts else ():
        for rows in args.rows:
            yield "rows", data, rows, metric, [eps]
    for data, rows, metric, eps in (GPU_EPS if args.engine else EPS) if "eps" in args.parts else ():
        yield "eps", data, rows, metric, eps


def same_job(a, b):
    return all(a[name] == b[name] for name in ("part", "data", "rows", "metric", "eps"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["sets", "rows", "eps"], help="parts to measure")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these data sets")
    parser.add_argument("--add", action="store_true", help="retain earlier measurements that are not repeated")
    parser.add_argument("--engine", type=Path, metavar="LIBRARY", help="library of the GPU engine; by default the CPU engine is measured")
    parser.add_argument("--threads", type=int, default=2, help="number of threads of the CPU engine")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each mode")
    parser.add_argument("--rows", type=int, nargs="+", default=[], help='numbers of rows of the part "rows"')
    args = parser.parse_args()
    args.rows = args.rows or ([10000, 31250, 100000, 312500, 1000000] if args.engine else [12500, 25000, 50000, 100000])
    args.threads = 0 if args.engine else args.threads

    env = record.environment()
    machine = record.machine_name(env) if args.engine else record.folder_name(f"{env['processor']} {env['processors']} cores")
    path = record.RESULTS / machine / "pruning.json"
    kept = json.loads(path.read_text())["measurements"] if args.add and path.exists() else []
    settings = {name: value for name, value in vars(args).items() if name not in ("only", "add", "parts", "engine")}
    settings["engine"] = "cuda" if args.engine else "cpu"
    with tempfile.TemporaryDirectory() as scratch:
        program = build(scratch)
        for part, data, rows, metric, eps in jobs(args):
            if args.only and data not in args.only:
                continue
            x = load(data, rows)
            for found in measure(program, args, part, data, x, metric, eps) if x is not None else ():
                kept = [m for m in kept if not same_job(m, found)] + [found]
                record.save(machine, "pruning", {"benchmark": "pruning", "environment": env, "settings": settings,
                                                 "measurements": kept})
    path.with_suffix(".md").write_text(pruning.machine_page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
