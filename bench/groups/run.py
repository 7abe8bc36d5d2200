#!/usr/bin/env python3
"""Measure clustering, counts of neighbours and deduplication, compared with count(*) over the same join.

    bench/groups/run.py [--engine cpu | cuda] [--data gist-like=20000 embedding-256=20000:cosine ...]
                        [--selectivity 64] [--min-samples 10] [--repeats 5] [--threads N] [--no-peers]

Eps is chosen by fasted_epsilon such that a row has --selectivity neighbours on average.
One session runs these statements in turn; the first round is recorded separately:

  count       SELECT count(*) FROM fasted_self_join; the engine counts and returns no pairs
  neighbors   fasted_neighbors for all rows
  components  fasted_cluster with min_samples = 1, which gives the connected components
  dbscan      fasted_cluster with --min-samples
  keep_one    fasted_keep_one, in order of id

It also runs the window functions over the same table, "neighbors window" and so on.

Two peers run if they are installed.  Their times include the export of their input by
binary COPY, and their results are compared row by row:

  scikit-learn DBSCAN     brute force in FP64 on all CPUs; at most --peer-rows rows
  scipy components        connected_components of the pairs of fasted_self_join

The benchmark writes JSON and a page to bench/results/<machine>/.
"""
import argparse
import os
import re
import statistics
import sys
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import datasets  # noqa: E402
import record  # noqa: E402
from peers import postgres  # noqa: E402
from peers.answer import Clock  # noqa: E402
from peers.binary_copy import pairs_in, records, rows_in  # noqa: E402
from peers.compare import differing_rows  # noqa: E402
from server import gpu_architectures, private_server  # noqa: E402

TABLE = "items"
CASES = {"cpu": ["gist-like=20000", "embedding-256=20000:cosine"],
         "cuda": ["gist-like=1000000", "embedding-256=1000000:cosine"]}
TIMES = {"Read Time": "read", "Wait Time": "wait", "Clustering Time": "group", "Filter Time": "filter", "Refine Time": "recheck"}
CLUSTER = numpy.dtype([("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("cluster_size", ">i4"), ("cluster", ">i4"),
                       ("core_size", ">i4"), ("core", "i1")])


class Case:
    """A table with the rows of a data set, and its eps."""

    def __init__(self, server, args, named):
        found = re.fullmatch(r"(.+)=(\d+)(?::(\w+))?", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS or NAME=ROWS:METRIC")
        self.server, self.args = server, args
        self.data, self.n, self.metric = found[1], int(found[2]), found[3] or "l2"
        rows = numpy.ascontiguousarray(datasets.load(self.data, self.n), dtype=numpy.float32)
        self.d = rows.shape[1]
        postgres.fill(server, TABLE, rows)
        # Move eps away from the distances of pairs, so that rounding in the peers does not change the result.
        self.eps = (1 + 1e-9) * float(self.ask(
            f"SELECT eps FROM fasted_epsilon('{TABLE}', 'v', {args.selectivity}, seed => 1, metric => '{self.metric}')"))

    def settings(self):
        args = self.args
        threads = f"SET fasted.threads = {args.threads};" if args.threads else ""
        return f"""SET fasted.engine = {args.engine}; {threads} SET max_parallel_workers_per_gather = {args.workers};
            SET fasted.memory_limit = '{args.memory_gib}GB'; SET work_mem = '{args.work_mem}';
            SET jit = off; SET client_min_messages = warning;"""

    def ask(self, query):
        return self.server.psql(f"{self.settings()}\n{query};")

    def call(self, function, *own):
        arguments = [f"'{TABLE}'", "'v'", repr(self.eps), *map(str, own)]
        return f"{function}({', '.join(arguments)}, id_column => 'id', metric => '{self.metric}')"

    def window(self, result, call, over=""):
        """Returns a query that aggregates a window function; call lacks the last argument, the metric."""
        return f"SELECT {result} FROM (SELECT id, {call}, '{self.metric}') OVER ({over}) AS w FROM {TABLE}) s"

    def queries(self):
        return {
            "count": f"SELECT count(*) FROM {self.call('fasted_self_join')}",
            "neighbors": f"SELECT sum(neighbors) FROM {self.call('fasted_neighbors')}",
            "components": f"SELECT coalesce(max(cluster) + 1, 0) FROM {self.call('fasted_cluster', 1)}",
            "dbscan": f"SELECT coalesce(max(cluster) + 1, 0) FROM {self.call('fasted_cluster', self.args.min_samples)}",
            "keep_one": f"SELECT count(*) FROM {self.call('fasted_keep_one')} WHERE kept = id",
            "neighbors window": self.window("sum(w)", f"fasted_neighbor_count(v, {self.eps!r}"),
            "components window": self.window("coalesce(max(w) + 1, 0)", f"fasted_dbscan(v, {self.eps!r}, 1"),
            "dbscan window": self.window("coalesce(max(w) + 1, 0)", f"fasted_dbscan(v, {self.eps!r}, {self.args.min_samples}"),
            "keep_one window": self.window("count(*) FILTER (WHERE w = id)", f"fasted_keep(v, {self.eps!r}, id", "ORDER BY id"),
        }

    def about(self):
        return {"data": self.data, "rows": self.n, "dimensions": self.d, "metric": self.metric,
                "selectivity": self.args.selectivity, "eps": self.eps, "min_samples": self.args.min_samples}

    def times(self):
        """Runs all queries in one session; returns ({name: {"first": [s], "warm": [s, ...]}}, {name: answer})."""
        times, answers = self.server.timed_in_turn(self.settings(), self.queries(), self.args.repeats)
        return times, {name: int(answer) for name, answer in answers.items()}

    def parts(self, query):
        """Returns the parts of the time of a warm call, from EXPLAIN ANALYZE."""
        found = self.server.explained(self.settings(), query)
        if found is None:           # the plan of a window function has no join node
            return {}
        facts = {"filter_kind": found["Distance Filter"], "host_kb": found["Host Memory"], "group_kb": found.get("Memory Usage", 0)}
        return {"seconds": {name: found[key] / 1000 for key, name in TIMES.items() if key in found}, **facts}

    def clusters(self, min_samples):
        """Returns (labels (n,), core (n,)) of fasted_cluster; the label of noise is -1."""
        call = self.call("fasted_cluster", min_samples)
        data = postgres.copy_out(self.server, self.settings(), f"SELECT id, coalesce(cluster, -1), core FROM {call} ORDER BY id")
        found = records(data, CLUSTER)
        return found["cluster"].astype(numpy.int64), found["core"].astype(bool)


# --- peers

def sklearn_dbscan(case):
    """Runs DBSCAN of scikit-learn; returns (seconds, parts, number of rows that differ).

    It compares which rows are core rows, and their clusters.
    """
    import sklearn
    from sklearn.cluster import DBSCAN

    clock = Clock()
    data = postgres.copy_out(case.server, "", f"SELECT id, v FROM {TABLE} ORDER BY id")
    _, rows = rows_in(data, case.d)
    clock.lap("export")
    with sklearn.config_context(assume_finite=True):
        found = DBSCAN(eps=case.eps, min_samples=case.args.min_samples, metric="euclidean" if case.metric == "l2" else "cosine",
                       algorithm="brute", n_jobs=-1).fit(rows.astype(numpy.float64))
    clock.lap("dbscan")
    core = numpy.zeros(case.n, bool)
    core[found.core_sample_indices_] = True
    seconds, parts = clock.seconds(), clock.parts
    labels, our_core = case.clusters(case.args.min_samples)
    both = core & our_core
    return seconds, parts, int((core != our_core).sum()) + differing_rows(labels[both], found.labels_[both])


def scipy_components(case):
    """Runs connected_components of scipy; returns (seconds, parts, number of rows that differ)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    clock = Clock()
    data = postgres.copy_out(case.server, case.settings(), f"SELECT id_a, id_b, dist FROM {case.call('fasted_self_join')}")
    clock.lap("join and export")
    a, b, _ = pairs_in(data)
    clock.lap("parse")
    _, labels = connected_components(coo_array((numpy.ones(len(a), numpy.int8), (a, b)), shape=(case.n, case.n)), directed=False)
    clock.lap("components")
    seconds, parts = clock.seconds(), clock.parts
    return seconds, parts, differing_rows(case.clusters(1)[0], labels)


PEERS = {"scikit-learn DBSCAN": ("dbscan", sklearn_dbscan), "scipy components": ("components", scipy_components)}


def measure_peers(case):
    for name, (beside, peer) in PEERS.items():
        about = {**case.about(), "method": name, "beside": beside}
        if name.startswith("scikit") and case.n > case.args.peer_rows:
            yield {**about, "reason": f"more than {case.args.peer_rows} rows"}
            continue
        try:
            seconds, parts, differ = peer(case)
        except ImportError as error:
            yield {**about, "reason": f"not available: {error}"}
            continue
        print(f"  {name}: {seconds:.3f} s, {differ} rows differ", flush=True)
        yield {**about, "seconds": {"warm": [seconds]}, "parts": {"seconds": parts}, "rows_that_differ": differ}


# --- the whole benchmark

def measure(case):
    times, answers = case.times()
    pairs = answers["count"]
    if answers["neighbors"] != 2 * pairs:
        sys.exit(f"{case.data}: fasted_self_join returns {pairs} pairs, but fasted_neighbors counts {answers['neighbors']} neighbours")
    for name in (name for name in answers if f"{name} window" in answers):
        if answers[name] != answers[f"{name} window"]:
            sys.exit(f"{case.data}: {name} is {answers[name]}, but the window function gives {answers[f'{name} window']}")
    for name, query in case.queries().items():
        print(f"  {name}: {statistics.median(times[name]['warm']):.3f} s", flush=True)
        yield {**case.about(), "method": name, "pairs": pairs, "answer": answers[name], "seconds": times[name],
               "parts": case.parts(query)}


def page(env, measurements):
    lines = ["# Clustering and deduplication", "", "Written by `bench/groups/run.py`. Times are medians of warm calls.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "revision", "date") if env.get(name)]
    counts = {}
    for m in measurements:
        case = (m["data"], m["rows"], m["metric"])
        if m["method"] == "count":
            counts[case] = statistics.median(m["seconds"]["warm"])
            lines += ["", f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['metric']}, eps {m['eps']:.6g}: {m['pairs']} pairs", "",
                      "| query | time, s | range, s | time / count | clustering, ns per pair |", "|---|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['method']} | {m['reason']} | | | |")
            continue
        runs = m["seconds"]["warm"]
        group = m["parts"].get("seconds", {}).get("group")
        each = f"{group / m['pairs'] * 1e9:.1f}" if group is not None else ""
        lines.append(f"| {m['method']} | {statistics.median(runs):.3f} | {min(runs):.3f} to {max(runs):.3f} | "
                     f"{statistics.median(runs) / counts[case]:.2f} | {each} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="cpu: build the extension without CUDA")
    parser.add_argument("--data", nargs="+", help="data sets of bench/datasets, as NAME=ROWS or NAME=ROWS:cosine")
    parser.add_argument("--selectivity", type=float, default=64, help="mean number of neighbours per row")
    parser.add_argument("--min-samples", type=int, default=10, help="min_samples of the case dbscan")
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="number of warm calls")
    parser.add_argument("--threads", type=int, help="fasted.threads; by default one per CPU")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count()), help="number of PostgreSQL's parallel workers")
    parser.add_argument("--memory-gib", type=int, default=16, help="fasted.memory_limit in GiB")
    parser.add_argument("--work-mem", default="1GB", help="work_mem, which also holds the rows of a window partition")
    parser.add_argument("--peer-rows", type=int, default=50000, help="maximum number of rows for scikit-learn")
    parser.add_argument("--no-peers", action="store_true", help="do not run the peers")
    return parser.parse_args()


def main():
    args = arguments()
    measurements = []
    build = [gpu_architectures()] if args.engine == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers(max_wal_size="16GB")
        env = record.environment(postgresql=server.psql("SHOW server_version"))
        for named in args.data or CASES[args.engine]:
            case = Case(server, args, named)
            print(f"{case.data}: {case.n} x {case.d}, {case.metric}, eps {case.eps:.6g}", flush=True)
            measurements += measure(case)
            if not args.no_peers:
                measurements += measure_peers(case)
    path = record.save(record.machine_name(env), "groups",
                       {"benchmark": "groups", "environment": env, "settings": vars(args), "measurements": measurements})
    path.with_suffix(".md").write_text(page(env, measurements))
    print(page(env, measurements))


if __name__ == "__main__":
    main()
