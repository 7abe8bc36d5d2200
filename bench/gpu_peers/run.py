#!/usr/bin/env python3
"""Measure nearest rows and clusters beside libraries for GPUs, on one GPU, in one run.

    bench/gpu_peers/run.py [--data sift-like=1000000:122.5 debian-minilm=65536 ...] [--k 10] [--min-samples 10]
                           [--min-cluster-size 10] [--repeats 5] [--engine cuda | cpu]

A data set is NAME=ROWS or NAME=ROWS:EPS.  Without EPS, fasted_epsilon chooses one such that a row has --selectivity
neighbours on average.  All distances are Euclidean.  Statements and peers:

  nearest    fasted_knn_join          cuML NearestNeighbors, brute force
  dbscan     fasted_cluster           cuML DBSCAN, brute force
  hdbscan    fasted_hdbscan           cuML HDBSCAN, brute force and nn_descent (approximate); cuhc HDBSCAN
  single     fasted_spanning_tree(1)  cuhc linkage, single

The time of a statement is that from the statement to an aggregate of its rows.  The time of a peer is that from rows in
host memory to its result in host memory.  A peer runs in a process of its own, first with --warm-rows rows, which loads
and compiles its code, and then with all rows.  The memory is the most that is in use on the GPU during the runs, less
what is in use before them.  The results are compared:

  nearest    the largest relative difference of a row's k-th distance
  dbscan     core rows that are in other clusters, and rows that are noise in one result only.  Rows that are not core
             rows may be within eps of several clusters, so that their clusters are not compared.
  hdbscan    rows in other clusters, and rows that are noise in one result only
  single     the largest relative difference of the ascending weights

Like scikit-learn and cuhc, fasted counts the row itself in min_samples of HDBSCAN; cuML does not, and gets one less.  All
peers compute in FP32.  A peer that is not installed is skipped, and the reason is recorded.

The benchmark writes JSON and a page to bench/results/<machine>/.
"""
import argparse
import os
import re
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import datasets  # noqa: E402
import record  # noqa: E402
from peers import postgres  # noqa: E402
from peers.answer import Clock  # noqa: E402
from peers.binary_copy import records  # noqa: E402
from peers.compare import differing_rows  # noqa: E402
from server import environment, gpu_architectures, private_server, write_results  # noqa: E402

TABLE = "items"
CASES = ["sift-like=1000000:122.5", "gist-like=1000000:0.4736", "debian-minilm=65536", "debian-wordllama=194383"]
DISTANCE = numpy.dtype([("fields", ">i2"), ("size", ">i4"), ("dist", ">f8")])
LABEL = numpy.dtype([("fields", ">i2"), ("size", ">i4"), ("label", ">i4"), ("core_size", ">i4"), ("core", "i1")])


class Case:
    """A table with the rows of a data set, and the file of these rows for the peers."""

    def __init__(self, server, args, named, scratch):
        found = re.fullmatch(r"([^=]+)=(\d+)(?::([\d.]+))?", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS or NAME=ROWS:EPS")
        self.server, self.args, self.data, self.file = server, args, found[1], f"{scratch}/rows.npy"
        rows = numpy.ascontiguousarray(datasets.load(self.data, int(found[2])), dtype=numpy.float32)
        self.n, self.d = rows.shape
        numpy.save(self.file, rows)
        postgres.fill(server, TABLE, rows)
        # Move eps away from the distances of pairs, so that rounding in the peers changes few results.
        self.eps = (1 + 1e-7) * float(found[3] or server.psql(
            f"{self.settings()} SELECT eps FROM fasted_epsilon('{TABLE}', 'v', {args.selectivity}, seed => 1)"))

    def settings(self):
        args = self.args
        return f"""SET fasted.engine = {args.engine}; SET max_parallel_workers_per_gather = {args.workers};
            SET fasted.memory_limit = '{args.memory_gib}GB'; SET jit = off; SET client_min_messages = warning;"""

    def calls(self):
        args = self.args
        return {"nearest": f"fasted_knn_join('{TABLE}', 'v', '{TABLE}', 'v', {args.k}, a_id => 'id')",
                "dbscan": f"fasted_cluster('{TABLE}', 'v', {self.eps!r}, {args.min_samples}, id_column => 'id')",
                "hdbscan": f"fasted_hdbscan('{TABLE}', 'v', {args.min_cluster_size}, {args.min_samples}, id_column => 'id')",
                "single": f"fasted_spanning_tree('{TABLE}', 'v', 1, id_column => 'id')"}

    def about(self):
        return {"data": self.data, "rows": self.n, "dimensions": self.d, "eps": self.eps}

    def result(self, kind):
        """Returns the result of a statement in the form of the peers': an array, or a pair of arrays for dbscan and hdbscan."""
        call = self.calls()[kind]
        query = {"nearest": f"SELECT max(dist) FROM {call} GROUP BY id_a ORDER BY id_a",
                 "dbscan": f"SELECT coalesce(cluster, -1), core FROM {call} ORDER BY id",
                 "hdbscan": f"SELECT coalesce(cluster, -1), true FROM {call} ORDER BY id",
                 "single": f"SELECT dist FROM {call} ORDER BY dist"}[kind]
        found = records(postgres.copy_out(self.server, self.settings(), query), DISTANCE if kind in ("nearest", "single") else LABEL)
        return found["dist"].astype(float) if "dist" in found.dtype.names else (found["label"].astype(int), found["core"].astype(bool))


# --- peers: each gets rows (n, d) float32, the arguments and eps, and returns the same as Case.result()

def cuml_nearest(rows, args, eps):
    from cuml.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=args.k + 1, algorithm="brute", output_type="numpy").fit(rows).kneighbors(rows)[0]
    return near[:, args.k].astype(float)


def cuml_dbscan(rows, args, eps):
    from cuml.cluster import DBSCAN

    found = DBSCAN(eps=eps, min_samples=args.min_samples, algorithm="brute", output_type="numpy").fit(rows)
    core = numpy.zeros(len(rows), bool)
    core[found.core_sample_indices_] = True
    return found.labels_.astype(int), core


def cuml_hdbscan(rows, args, eps, build="brute_force"):
    from cuml.cluster import HDBSCAN

    found = HDBSCAN(min_cluster_size=args.min_cluster_size, min_samples=args.min_samples - 1, build_algo=build, output_type="numpy").fit(rows)
    return found.labels_.astype(int), numpy.ones(len(rows), bool)


def cuml_hdbscan_approximate(rows, args, eps):
    return cuml_hdbscan(rows, args, eps, "nn_descent")


def cuhc_hdbscan(rows, args, eps):
    import cuhc

    found = cuhc.HDBSCAN(min_cluster_size=args.min_cluster_size, min_samples=args.min_samples).fit(rows)
    return found.labels_.astype(int), numpy.ones(len(rows), bool)


def cuhc_single(rows, args, eps):
    import cuhc

    return cuhc.linkage(rows, method="single")[:, 2]


PEERS = {"nearest": {"cuML": cuml_nearest}, "dbscan": {"cuML": cuml_dbscan},
         "hdbscan": {"cuML": cuml_hdbscan, "cuML, nn_descent": cuml_hdbscan_approximate, "cuhc": cuhc_hdbscan},
         "single": {"cuhc": cuhc_single}}


def run_peer(peer, file, args, eps):
    """Runs in a process of its own; returns ([seconds, ...], result)."""
    rows = numpy.load(file)
    peer(rows[:args.warm_rows], args, eps)
    seconds = []
    for _ in range(args.peer_repeats):
        clock = Clock()
        result = peer(rows, args, eps)
        seconds.append(clock.seconds())
    return seconds, result


def compared(kind, ours, theirs):
    """Returns the differences of a peer's result from ours, to be recorded."""
    if kind in ("nearest", "single"):
        scale = numpy.maximum(numpy.abs(ours), numpy.finfo(numpy.float32).tiny)
        return {"largest_difference": float((numpy.abs(ours - theirs) / scale).max())}
    (labels, core), (their_labels, their_core) = ours, theirs
    both = core & their_core
    return {"rows_that_differ": int((core != their_core).sum()) + differing_rows(labels[both], their_labels[both]),
            "noise_that_differs": int(((labels < 0) != (their_labels < 0)).sum())}


def counts(kind, result):
    """Returns the number of clusters and of noise rows of a result."""
    return {} if kind in ("nearest", "single") else {"clusters": len(set(result[0].tolist()) - {-1}), "noise": int((result[0] < 0).sum())}


# --- the whole benchmark

def measure_peer(case, kind, peer, ours):
    with record.GpuMonitor() as monitor, ProcessPoolExecutor(1, get_context("spawn")) as process:
        try:
            seconds, theirs = process.submit(run_peer, peer, case.file, case.args, case.eps).result()
        except ImportError as error:
            return {"reason": f"not available: {error}"}
        except (RuntimeError, MemoryError) as error:    # out of GPU memory
            return {"reason": str(error).splitlines()[0]}
    return {"seconds": {"warm": seconds}, "memory_mib": monitor.memory(), **counts(kind, theirs), **compared(kind, ours, theirs)}


def measure(case):
    for kind, call in case.calls().items():
        with record.GpuMonitor() as monitor:
            _, seconds = case.server.timed(case.settings(), f"SELECT count(*) FROM {call}", 1 + case.args.repeats)
        ours = case.result(kind)
        found = {"fasted": {"seconds": {"first": seconds[:1], "warm": seconds[1:]}, "memory_mib": monitor.memory(), **counts(kind, ours)}}
        for name, peer in PEERS[kind].items():
            found[name] = measure_peer(case, kind, peer, ours)
        for name, values in found.items():
            print(f"  {kind}, {name}: {values}", flush=True)
            yield {**case.about(), "kind": kind, "method": name, **values}


def page(env, settings, measurements):
    lines = ["# Libraries for GPUs", "", f"Written by `bench/gpu_peers/run.py`. Medians of warm calls, k = {settings['k']}, `min_samples` "
             f"{settings['min_samples']}, `min_cluster_size` {settings['min_cluster_size']}.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "storage", "revision", "date") if env.get(name)]
    case = ours = None
    for m in measurements:
        if case != (case := (m["data"], m["rows"], m["dimensions"])):
            lines += ["", f"{m['data']}, {m['rows']} x {m['dimensions']}, eps {m['eps']:.6g}", "",
                      "| result | method | time, s | time / fasted | GPU memory, MiB | clusters, noise | differences |", "|---|---|---|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['kind']} | {m['method']} | {m['reason']} | | | | |")
            continue
        seconds = statistics.median(m["seconds"]["warm"])
        ours = seconds if m["method"] == "fasted" else ours
        clusters = f"{m['clusters']}, {m['noise']}" if "clusters" in m else ""
        differences = (f"{m['largest_difference']:.2g}" if "largest_difference" in m else
                       f"{m['rows_that_differ']} rows, {m['noise_that_differs']} of noise" if "rows_that_differ" in m else "")
        lines.append(f"| {m['kind']} | {m['method']} | {seconds:.3f} | {seconds / ours:.1f} | {m['memory_mib'] or ''} | {clusters} | {differences} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cuda", help="cpu: build the extension without CUDA")
    parser.add_argument("--data", nargs="+", default=CASES, help="data sets of bench/datasets, as NAME=ROWS or NAME=ROWS:EPS")
    parser.add_argument("--selectivity", type=float, default=64, help="mean number of neighbours per row")
    parser.add_argument("--k", type=int, default=10, help="number of neighbours per row")
    parser.add_argument("--min-samples", type=int, default=10, help="min_samples, which counts the row itself")
    parser.add_argument("--min-cluster-size", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="number of warm calls of fasted")
    parser.add_argument("--peer-repeats", type=int, default=1, help="number of calls of a peer with all rows")
    parser.add_argument("--warm-rows", type=int, default=5000, help="number of rows of a peer's first call")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count()), help="number of PostgreSQL's parallel workers")
    parser.add_argument("--memory-gib", type=int, default=16, help="fasted.memory_limit in GiB")
    return parser.parse_args()


def main():
    args = arguments()
    measurements = []
    build = [gpu_architectures()] if args.engine == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _), TemporaryDirectory(prefix="fasted-peers-") as scratch:
        server.allow_workers(max_wal_size="16GB")
        env = environment(server)
        for named in args.data:
            case = Case(server, args, named, scratch)
            print(f"{case.data}: {case.n} x {case.d}, eps {case.eps:.6g}", flush=True)
            measurements += measure(case)
    write_results("gpu_peers", record.machine_name(env),
                  {"benchmark": "gpu_peers", "environment": env, "settings": vars(args), "measurements": measurements},
                  page(env, vars(args), measurements))


if __name__ == "__main__":
    main()
