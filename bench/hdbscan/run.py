#!/usr/bin/env python3
"""Measure HDBSCAN and minimum spanning trees inside PostgreSQL, beside other programs.

    bench/hdbscan/run.py [--engine cpu | cuda] [--large] [--data debian-minilm=20000 ...] [--min-samples 10]
                         [--min-cluster-size 10] [--repeats 5] [--threads N] [--peer-rows 20000] [--no-peers]

One session runs these statements in turn, from the statement to an aggregate of its rows; the
first round is recorded separately:

  fasted_knn_join       the --k nearest rows of every row, with which the tree begins
  fasted_spanning_tree  the minimum spanning tree under mutual reachability
  fasted_hdbscan        the clusters

The peers run if they are installed.  They cluster by Euclidean distance, get the rows in memory
and use as many threads as fasted, where they can:

  scikit-learn          HDBSCAN(algorithm="brute"), which holds the matrix of all distances in memory
  hdbscan               the package of scikit-learn-contrib, algorithm="best"
  fast-hdbscan          above 30 dimensions, its tree is that of an approximate neighbour graph (pynndescent)

For each peer, the adjusted Rand index of its clusters and ours is recorded (noise is one of the
clusters), and the numbers of rows that differ: those in another cluster, and those that are noise
in one result only.  The tree is checked as well: whatever the ties, its sorted weights are unique.
The largest difference from the peer's weights is recorded.  Mutual reachability distances are
often equal, so that two exact trees can differ, and with them the clusters of a few rows.

The benchmark writes JSON and a page to bench/results/<machine>/.
"""
import argparse
import os
import re
import statistics
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402
import record  # noqa: E402
from peers import postgres  # noqa: E402
from peers.answer import Clock  # noqa: E402
from peers.binary_copy import records  # noqa: E402
from peers.compare import differing_rows  # noqa: E402
from server import environment, gpu_architectures, private_server  # noqa: E402

TABLE = "items"
CASES = ["debian-minilm=8000", "debian-minilm=20000"]
LARGE = ["sift-like=1000000", "gist-like=1000000"]
TIMES = {"Read Time": "read", "Wait Time": "wait", "Filter Time": "filter", "Refine Time": "recheck",
         "Spanning Tree Time": "tree", "Clustering Time": "clusters"}
FACTS = ("Searches", "Rows Searched", "Components", "Candidates", "Host Memory", "Memory Usage")
LABEL = numpy.dtype([("fields", ">i2"), ("size", ">i4"), ("cluster", ">i4")])
WEIGHT = numpy.dtype([("fields", ">i2"), ("size", ">i4"), ("dist", ">f8")])


class Case:
    """A table with the rows of a data set."""

    def __init__(self, server, args, named):
        found = re.fullmatch(r"(.+)=(\d+)", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS")
        self.server, self.args, self.data = server, args, found[1]
        self.rows = numpy.ascontiguousarray(datasets.load(self.data, int(found[2])), dtype=numpy.float32)
        self.n, self.d = self.rows.shape
        postgres.fill(server, TABLE, self.rows)

    def settings(self):
        args = self.args
        return f"""SET fasted.engine = {args.engine}; SET fasted.threads = {args.threads};
            SET max_parallel_workers_per_gather = {min(12, args.threads)}; SET fasted.memory_limit = '{args.memory_gib}GB';
            SET jit = off; SET client_min_messages = warning;"""

    def call(self, function):
        """Returns a call of one of the statements in FROM."""
        args = self.args
        own = {"fasted_knn_join": f"'{TABLE}', 'v', {args.k}, a_id =>",
               "fasted_spanning_tree": f"{args.min_samples}, id_column =>",
               "fasted_hdbscan": f"{args.min_cluster_size}, {args.min_samples}, id_column =>"}
        return f"{function}('{TABLE}', 'v', {own[function]} 'id')"

    def queries(self):
        results = {"fasted_knn_join": "count(*), sum(dist)", "fasted_spanning_tree": "count(*), sum(dist)",
                   "fasted_hdbscan": "count(*), count(DISTINCT cluster), count(*) FILTER (WHERE cluster IS NULL)"}
        return {function: f"SELECT {result} FROM {self.call(function)}" for function, result in results.items()}

    def about(self):
        args = self.args
        return {"data": self.data, "rows": self.n, "dimensions": self.d, "min_samples": args.min_samples,
                "min_cluster_size": args.min_cluster_size}

    def column(self, result, function, order, dtype):
        """Returns a column of the result of one of the statements, as an array in this order."""
        data = postgres.copy_out(self.server, self.settings(), f"SELECT {result} FROM {self.call(function)} ORDER BY {order}")
        return records(data, dtype)[dtype.names[-1]].astype(dtype[-1].newbyteorder("="))

    def labels(self):
        """Returns the cluster of each row of fasted_hdbscan (n,); -1 is noise."""
        return self.column("coalesce(cluster, -1)", "fasted_hdbscan", "id", LABEL)

    def weights(self):
        """Returns the ascending weights of fasted_spanning_tree (n - 1,)."""
        return self.column("dist", "fasted_spanning_tree", "dist", WEIGHT)


# --- peers: each returns a fitted object with labels_ and _single_linkage_tree_ or _single_linkage_tree

def sklearn_hdbscan(rows, args):
    import sklearn
    from sklearn.cluster import HDBSCAN

    with sklearn.config_context(assume_finite=True):
        return HDBSCAN(min_cluster_size=args.min_cluster_size, min_samples=args.min_samples, algorithm="brute", n_jobs=args.threads,
                       copy=True).fit(rows)


def contrib_hdbscan(rows, args):
    """Other than scikit-learn and fasted, this package does not count the row itself in min_samples."""
    from hdbscan import HDBSCAN

    return HDBSCAN(min_cluster_size=args.min_cluster_size, min_samples=args.min_samples - 1, core_dist_n_jobs=args.threads).fit(rows)


def fast_hdbscan(rows, args):
    """Like the hdbscan package, does not count the row itself in min_samples."""
    import numba
    import pynndescent  # noqa: F401
    from fast_hdbscan import HDBSCAN

    numba.set_num_threads(args.threads)
    return HDBSCAN(min_cluster_size=args.min_cluster_size, min_samples=args.min_samples - 1).fit(rows)


PEERS = {"scikit-learn": sklearn_hdbscan, "hdbscan": contrib_hdbscan, "fast-hdbscan": fast_hdbscan}


def tree_weights(fitted):
    """Returns the ascending weights of a peer's minimum spanning tree, which are the heights of its dendrogram."""
    tree = getattr(fitted, "_single_linkage_tree_", None)
    return numpy.sort(fitted._single_linkage_tree[:, 2] if tree is None else tree["value"])


def run_peer(peer, rows, args):
    """Returns (seconds, labels (n,), ascending weights of the tree (n - 1,))."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(args.threads):
        peer(rows[:1000], args)     # imports the library and compiles its code
        clock = Clock()
        fitted = peer(rows, args)
        return clock.seconds(), fitted.labels_.astype(numpy.int64), tree_weights(fitted)


def compared(labels, weights, their_labels, their_weights):
    """Returns the differences of a peer's result from ours, to be recorded."""
    from sklearn.metrics import adjusted_rand_score

    return {"rand_index": float(adjusted_rand_score(labels, their_labels)), "rows_that_differ": differing_rows(labels, their_labels),
            "noise_that_differs": int(((labels < 0) != (their_labels < 0)).sum()),
            "largest_difference": float(numpy.abs(weights - their_weights).max()) if len(weights) == len(their_weights) else None}


def measure_peers(case):
    ours = case.labels().astype(numpy.int64), case.weights()
    for name, peer in PEERS.items():
        about = {**case.about(), "method": name}
        if case.n > case.args.peer_rows:
            yield {**about, "reason": f"more than {case.args.peer_rows} rows"}
            continue
        try:
            seconds, *theirs = run_peer(peer, case.rows, case.args)
        except ImportError as error:
            yield {**about, "reason": f"not available: {error}"}
            continue
        found = compared(*ours, *theirs)
        print(f"  {name}: {seconds:.3f} s, {found}", flush=True)
        yield {**about, "seconds": {"warm": [seconds]}, **found}


# --- the whole benchmark

def measure(case):
    queries = case.queries()
    times, answers = case.server.timed_in_turn(case.settings(), queries, case.args.repeats)
    for name, query in queries.items():
        node = case.server.explained(case.settings(), query) or {}
        found = {"answer": answers[name], "seconds": times[name],
                 "parts": {"seconds": {short: node[key] / 1000 for key, short in TIMES.items() if key in node}},
                 "facts": {key: node[key] for key in FACTS if key in node}}
        print(f"  {name}: {statistics.median(times[name]['warm']):.3f} s, {answers[name]}, {found['parts']['seconds']}, {found['facts']}", flush=True)
        yield {**case.about(), "method": name, **({"k": case.args.k} if name == "fasted_knn_join" else {}), **found}
    if not case.args.no_peers:
        yield from measure_peers(case)


def page(env, measurements):
    lines = ["# HDBSCAN", "", "Written by `bench/hdbscan/run.py`. Times of fasted are medians of warm calls.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "storage", "revision", "date") if env.get(name)]
    nearest = None
    for m in measurements:
        if m["method"] == "fasted_knn_join":
            nearest = statistics.median(m["seconds"]["warm"])
            lines += ["", f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['k']} nearest rows, min_samples {m['min_samples']}, "
                      f"min_cluster_size {m['min_cluster_size']}", "",
                      "| method | time, s | time / fasted_knn_join | adjusted Rand index | rows that differ | noise that differs | largest difference of weights |",
                      "|---|---|---|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['method']} | {m['reason']} | | | | | |")
            continue
        seconds = statistics.median(m["seconds"]["warm"])
        differences = [f"{m['rand_index']:.6f}", m["rows_that_differ"], m["noise_that_differs"],
                       "" if m["largest_difference"] is None else f"{m['largest_difference']:.2g}"] if "rand_index" in m else [""] * 4
        lines.append(f"| {m['method']} | {seconds:.3f} | {seconds / nearest:.2f} | {' | '.join(map(str, differences))} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="cpu: build the extension without CUDA")
    parser.add_argument("--large", action="store_true", help=f"the default of --data is {' '.join(LARGE)}")
    parser.add_argument("--data", nargs="+", help="data sets of bench/datasets, as NAME=ROWS")
    parser.add_argument("--min-samples", type=int, default=10, help="min_samples, which counts the row itself")
    parser.add_argument("--min-cluster-size", type=int, default=10)
    parser.add_argument("--k", type=int, default=16, help="number of neighbours per row in fasted_knn_join")
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="number of warm calls of fasted")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="number of threads of fasted and of the peers")
    parser.add_argument("--memory-gib", type=int, default=16, help="fasted.memory_limit in GiB")
    parser.add_argument("--peer-rows", type=int, default=20000, help="maximum number of rows for the peers")
    parser.add_argument("--no-peers", action="store_true", help="do not run the peers")
    return parser.parse_args()


def main():
    args = arguments()
    measurements = []
    build = [gpu_architectures()] if args.engine == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers(max_wal_size="16GB")
        env = environment(server)
        for named in args.data or (LARGE if args.large else CASES):
            case = Case(server, args, named)
            print(f"{case.data}: {case.n} x {case.d}", flush=True)
            measurements += measure(case)
    path = record.save(record.machine_name(env), "hdbscan",
                       {"benchmark": "hdbscan", "environment": env, "settings": vars(args), "measurements": measurements})
    path.with_suffix(".md").write_text(page(env, measurements))
    print(page(env, measurements))


if __name__ == "__main__":
    main()
