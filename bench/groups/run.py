#!/usr/bin/env python3
"""Measure clustering, counts of neighbours and deduplication, compared with count(*) over the same join.

    bench/groups/run.py [--engine cpu | cuda] [--data gist-like=20000 wordllama-like=200000:cosine:0.05 ...]
                        [--selectivity 64] [--min-samples 10] [--repeats 5] [--threads N] [--no-peers]

Eps is chosen by fasted_epsilon such that a row has --selectivity neighbours on average, if the
name of the data set does not end with a value.
One session runs these statements in turn; the first round is recorded separately:

  count       SELECT count(*) FROM fasted_self_join; the engine counts and returns no pairs
  neighbors   fasted_neighbors for all rows
  components  fasted_cluster with min_samples = 1, which gives the connected components
  dbscan      fasted_cluster with --min-samples
  keep_one    fasted_keep_one, in order of id

It also runs the window functions over the same table, "neighbors window" and so on.

Peers run if they are installed.  Their times include the export of their input by binary
COPY.  The results of the first two are compared row by row:

  scikit-learn DBSCAN     brute force in FP64 on all CPUs; at most --peer-rows rows
  scipy components        connected_components of the pairs of fasted_self_join

With cosine distance and at most 200000 rows, also programs with which people clean data sets:

  SemHash                 the rows that it keeps, in order of id; compare with keep_one
  USearch                 the pairs that its HNSW index finds; compare with count
  FAISS flat              the pairs, by the distances of normalized rows; compare with count

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
from peers import compare, postgres  # noqa: E402
from peers.answer import Clock  # noqa: E402
from peers.binary_copy import pairs_in, records, rows_in  # noqa: E402
from server import environment, gpu_architectures, private_server  # noqa: E402

TABLE = "items"
CASES = {"cpu": ["gist-like=20000", "embedding-256=20000:cosine", "wordllama-like=200000:cosine:0.05"],
         "cuda": ["gist-like=1000000", "embedding-256=1000000:cosine"]}
TIMES = {"Read Time": "read", "Wait Time": "wait", "Clustering Time": "group", "Filter Time": "filter", "Refine Time": "recheck"}
CLUSTER = numpy.dtype([("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("cluster_size", ">i4"), ("cluster", ">i4"),
                       ("core_size", ">i4"), ("core", "i1")])


class Case:
    """A table with the rows of a data set, and its eps."""

    def __init__(self, server, args, named):
        found = re.fullmatch(r"(.+)=(\d+)(?::(\w+))?(?::([\d.]+))?", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS, NAME=ROWS:METRIC or NAME=ROWS:METRIC:EPS")
        self.server, self.args = server, args
        self.data, self.n, self.metric = found[1], int(found[2]), found[3] or "l2"
        rows = numpy.ascontiguousarray(datasets.load(self.data, self.n), dtype=numpy.float32)
        self.d = rows.shape[1]
        postgres.fill(server, TABLE, rows)
        # Move eps away from the distances of pairs, so that rounding in the peers does not change the result.
        self.eps = (1 + 1e-9) * float(found[4] or self.ask(
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
                "eps": self.eps, "min_samples": self.args.min_samples}

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

    def export(self):
        """Exports the table; returns (a clock that includes the export, the rows)."""
        clock = Clock()
        _, rows = rows_in(postgres.copy_out(self.server, "", f"SELECT id, v FROM {TABLE} ORDER BY id"), self.d)
        clock.lap("export")
        return clock, rows

    def clusters(self, min_samples):
        """Returns (labels (n,), core (n,)) of fasted_cluster; the label of noise is -1."""
        call = self.call("fasted_cluster", min_samples)
        data = postgres.copy_out(self.server, self.settings(), f"SELECT id, coalesce(cluster, -1), core FROM {call} ORDER BY id")
        found = records(data, CLUSTER)
        return found["cluster"].astype(numpy.int64), found["core"].astype(bool)


# --- peers

def sklearn_dbscan(case):
    """Runs DBSCAN of scikit-learn.

    It compares which rows are core rows, and their clusters.
    """
    import sklearn
    from sklearn.cluster import DBSCAN

    clock, rows = case.export()
    with sklearn.config_context(assume_finite=True):
        found = DBSCAN(eps=case.eps, min_samples=case.args.min_samples, metric="euclidean" if case.metric == "l2" else "cosine",
                       algorithm="brute", n_jobs=-1).fit(rows.astype(numpy.float64))
    clock.lap("dbscan")
    core = numpy.zeros(case.n, bool)
    core[found.core_sample_indices_] = True
    seconds, parts = clock.seconds(), clock.parts
    labels, our_core = case.clusters(case.args.min_samples)
    both = core & our_core
    return seconds, parts, {"rows_that_differ": int((core != our_core).sum()) + compare.differing_rows(labels[both], found.labels_[both])}


def scipy_components(case):
    """Runs connected_components of scipy."""
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
    return seconds, parts, {"rows_that_differ": compare.differing_rows(case.clusters(1)[0], labels)}


def semhash_keep(case):
    """Runs SemHash; its answer is the number of rows that it keeps."""
    from peers.semhash_keep import keep

    clock, rows = case.export()
    kept, version = keep(rows, case.eps)
    clock.lap("deduplicate")
    return clock.seconds(), clock.parts, {"answer": len(kept), "version": version}


def pairs_of(case, join):
    """Runs join(rows) -> Answer; its answer is the number of pairs, which are compared with those of fasted_self_join."""
    clock, rows = case.export()
    found = join(rows)
    seconds, parts = clock.seconds(), {**clock.parts, **found.parts}
    exact = pairs_in(postgres.copy_out(case.server, case.settings(), f"SELECT id_a, id_b, dist FROM {case.call('fasted_self_join')}"))
    result = compare.compare(exact, (found.a, found.b, None), case.n)
    return seconds, parts, {"answer": len(found.a), "missed": result["missed"], "spurious": result["spurious"], **found.about}


def usearch_pairs(case):
    """Searches for twice the mean number of neighbours, at least 64."""
    from peers import usearch_join

    return pairs_of(case, lambda rows: usearch_join.join(rows, case.eps, max(64, 4 * case.pairs // case.n + 1)))


def faiss_pairs(case):
    """Joins normalized rows, whose Euclidean distance is sqrt(2 eps) at the cosine distance eps."""
    import faiss
    from peers import faiss_join

    def join(rows):
        faiss.normalize_L2(rows)
        return faiss_join.join(rows, (2 * case.eps) ** 0.5)

    return pairs_of(case, join)


# each returns (seconds, parts, facts to record)
PEERS = {"scikit-learn DBSCAN": ("dbscan", sklearn_dbscan), "scipy components": ("components", scipy_components)}
COSINE_PEERS = {"SemHash": ("keep_one window", semhash_keep), "USearch": ("count", usearch_pairs), "FAISS flat": ("count", faiss_pairs)}
MOST_ROWS = 200000              # of COSINE_PEERS


def measure_peers(case):
    for name, (beside, peer) in {**PEERS, **(COSINE_PEERS if case.metric == "cosine" else {})}.items():
        about = {**case.about(), "method": name, "beside": beside}
        most = case.args.peer_rows if name.startswith("scikit") else MOST_ROWS if name in COSINE_PEERS else case.n
        if case.n > most:
            yield {**about, "reason": f"more than {most} rows"}
            continue
        try:
            seconds, parts, facts = peer(case)
        except ImportError as error:
            yield {**about, "reason": f"not available: {error}"}
            continue
        print(f"  {name}: {seconds:.3f} s, {facts}", flush=True)
        yield {**about, "seconds": {"warm": [seconds]}, "parts": {"seconds": parts}, **facts}


# --- the whole benchmark

def measure(case):
    times, answers = case.times()
    pairs = case.pairs = answers["count"]
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
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "storage", "revision", "date") if env.get(name)]
    counts = {}
    for m in measurements:
        case = (m["data"], m["rows"], m["metric"])
        if m["method"] == "count":
            counts[case] = statistics.median(m["seconds"]["warm"])
            lines += ["", f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['metric']}, eps {m['eps']:.6g}: {m['pairs']} pairs", "",
                      "| query | answer | time, s | range, s | time / count | clustering, ns per pair |", "|---|---|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['method']} | {m['reason']} | | | | |")
            continue
        runs = m["seconds"]["warm"]
        group = m["parts"].get("seconds", {}).get("group")
        each = f"{group / m['pairs'] * 1e9:.1f}" if group is not None else ""
        answer = m["answer"] if "answer" in m else f"{m['rows_that_differ']} rows differ"
        lines.append(f"| {m['method']} | {answer} | {statistics.median(runs):.3f} | {min(runs):.3f} to {max(runs):.3f} | "
                     f"{statistics.median(runs) / counts[case]:.2f} | {each} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="cpu: build the extension without CUDA")
    parser.add_argument("--data", nargs="+", help="data sets of bench/datasets, as NAME=ROWS, NAME=ROWS:cosine or NAME=ROWS:cosine:EPS")
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
        env = environment(server)
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
