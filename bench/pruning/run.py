#!/usr/bin/env python3
"""An engine with pruning and without it, in one program in turn.

    bench/pruning/run.py [--parts sets rows eps] [--only gist-like ...] [--add] [--threads 2] [--repeats 3]
                         [--rows 12500 25000 50000 100000] [--engine fasted_cuda.so]

A time is from the last row to the last pair: form, projection, order, packing, filter,
recheck, drain.  Processor time is of all threads, and is what to compare on a machine that
does other work too; the load at the time is in the results.  All runs of a join must give
the same pairs with the same distances to the last bit.  A GPU counts the pairs, so that
all of its time is the GPU's, and all runs must count as many.

  sets   sets of bench/datasets at several eps; sets that are not at hand are left out
  rows   how the time grows with the rows, to --rows 1000000 where the set has them
  eps    how the time grows with eps

A set may be changed: NAME+long has one row in a hundred 3 to 30 times as long, NAME+heavy
has lengths that spread log-normally, NAME+sphere lengths of 1.  Needs a C compiler and numpy,
and no PostgreSQL.  Writes JSON and a page to bench/results/<machine>/; --add keeps there
what is not measured again.
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

COSINE = 0.05                   # near-duplicates: cosine 0.95
SAME = 0.31623                  # as a distance of unit vectors, a little more

# data, rows at most, metric, [eps, or a text: the neighbours that a row has on average]
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


# The same of a GPU.
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
ONCE = {True: 5e15, False: 2e13}  # squares of rows times dimensions, from which a GPU's join is measured once, a CPU's


def build(directory):
    program = Path(directory) / "engine"
    sources = sorted([*(TOP / "src/cpu").glob("*.c"), *(TOP / "src/engine").glob("*.c")])
    subprocess.run(["cc", "-std=gnu11", "-O2", "-ffp-contract=off", "-pthread", "-o", program, HERE / "engine.c",
                    *sources, "-lm", "-ldl"], check=True)
    return program


def changed(x, how):
    random = numpy.random.default_rng(1)
    lengths = numpy.ones(len(x))
    if how == "long":
        lengths[random.permutation(len(x))[:len(x) // 100]] = random.uniform(3, 30, len(x) // 100)
    elif how == "heavy":
        lengths = numpy.exp(random.normal(0, 1, len(x)))
    elif how == "sphere":
        lengths = 1 / numpy.linalg.norm(x, axis=1)
    else:
        sys.exit(f"a set can be changed by long, heavy or sphere, not {how}")
    return (x * lengths[:, None]).astype(numpy.float32)


def load(name, rows):
    """At most so many rows of a set, or None where it is not at hand."""
    data, _, how = name.partition("+")
    try:
        real = datasets.path_of(data) is not None
        x = datasets.load(data)[:rows] if real else datasets.load(data, rows)
    except (datasets.MissingFile, RuntimeError) as missing:
        print(f"{name} is left out: {str(missing).splitlines()[0]}", flush=True)
        return None
    return numpy.ascontiguousarray(changed(x, how) if how else x, dtype=numpy.float32)


def measure(program, args, part, name, x, metric, eps):
    """One measurement for each eps."""
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
    """(part, data, rows, metric, [eps])."""
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
    parser.add_argument("--parts", nargs="+", default=["sets", "rows", "eps"])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these sets")
    parser.add_argument("--add", action="store_true", help="keep earlier measurements of other joins")
    parser.add_argument("--engine", type=Path, metavar="LIBRARY", help="a GPU's engine, in place of the CPU's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[])
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
