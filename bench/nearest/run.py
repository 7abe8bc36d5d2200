#!/usr/bin/env python3
"""Measure the search for the k nearest rows of every row, inside PostgreSQL and with its peers.

    bench/nearest/run.py [--engine cpu | cuda] [--data sift-like=20000 gist-like=20000 embedding-256=20000:cosine ...] [--k 10]
                         [--repeats 5] [--threads N] [--ef-search 40 200] [--limit 900] [--no-peers]

With --engine cuda, the default data sets have a million rows, and PyTorch is the only peer.
These methods are measured with each data set:

  fasted_knn_join         counts all rows of the result, in one session; the first call is recorded separately
  pgvector lateral        CROSS JOIN LATERAL (... ORDER BY a.v <-> b.v LIMIT k), without an index, with parallel workers
  pgvector hnsw           the same with an HNSW index, for each --ef-search; the index build is recorded separately
  scikit-learn            kneighbors, brute force, all CPUs
  faiss flat              IndexFlatL2 or IndexFlatIP, all CPUs
  usearch                 HNSW with default options, all CPUs; includes the index build
  torch                   on the GPU: products in FP16 of a tile of rows with all rows, and topk

The times of the last four include the export of the table by binary COPY.  A peer that is
not available is skipped, and the reason is recorded.  Recall is the number of returned
neighbours that are not farther away than the true k-th neighbour, by FP64 distances, divided
by the number of true neighbours.  For many rows, it is computed from a random sample of rows.

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
from peers import pgvector, postgres  # noqa: E402
from peers.answer import Clock, TimeLimit, Unavailable  # noqa: E402
from peers.binary_copy import pairs_in, rows_in  # noqa: E402
from server import environment, gpu_architectures, private_server  # noqa: E402

TABLE = "items"
CASES = {"cpu": ["sift-like=20000", "gist-like=20000", "wordllama-like=200000:cosine"], "cuda": ["sift-like=1000000", "gist-like=1000000"]}
SAMPLED = 20000                         # maximum number of rows from which the recall is computed
TORCH_ROWS = 2048                       # number of rows of a tile
OPERATORS = {"l2": ("<->", "vector_l2_ops"), "cosine": ("<=>", "vector_cosine_ops")}


class Case:
    """A table with the rows of a data set."""

    def __init__(self, server, args, named):
        found = re.fullmatch(r"(.+)=(\d+)(?::(\w+))?", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS or NAME=ROWS:METRIC")
        self.server, self.args = server, args
        self.data, self.n, self.metric = found[1], int(found[2]), found[3] or "l2"
        self.rows = numpy.ascontiguousarray(datasets.load(self.data, self.n), dtype=numpy.float32)
        self.d = self.rows.shape[1]
        postgres.fill(server, TABLE, self.rows)
        self.farthest = None            # distance of the k-th neighbour of each row
        self.sampled = numpy.ones(self.n, dtype=bool)
        if self.n > SAMPLED:
            self.sampled[:] = False
            self.sampled[numpy.random.default_rng(1).choice(self.n, SAMPLED, replace=False)] = True

    def settings(self):
        threads = f"SET fasted.threads = {self.args.threads};" if self.args.threads else ""
        return f"""SET fasted.engine = {self.args.engine}; {threads} SET max_parallel_workers_per_gather = {self.args.workers};
            SET fasted.memory_limit = '{self.args.memory_gib}GB'; SET jit = off; SET client_min_messages = warning;"""

    def call(self):
        return (f"fasted_knn_join('{TABLE}', 'v', '{TABLE}', 'v', {self.args.k}, a_id => 'id', "
                f"metric => '{self.metric}')")

    def about(self):
        return {"data": self.data, "rows": self.n, "dimensions": self.d, "metric": self.metric, "k": self.args.k}

    def distances(self, a, b):
        """Returns the distances of pairs of rows in FP64."""
        out = numpy.empty(len(a))
        for first in range(0, len(a), 1 << 14):
            x, y = (self.rows[side[first:first + (1 << 14)]].astype(numpy.float64) for side in (a, b))
            if self.metric == "l2":
                out[first:first + len(x)] = numpy.sqrt(((x - y) ** 2).sum(1))
            else:
                norms = numpy.sqrt((x * x).sum(1) * (y * y).sum(1))
                out[first:first + len(x)] = 1 - (x * y).sum(1) / norms
        return out

    def recall(self, a, b):
        """Returns the recall of the neighbours b of the rows a."""
        counted = (a != b) & self.sampled[a]
        a, b = a[counted], b[counted]
        near = self.distances(a, b) <= self.farthest[a] * (1 + 1e-9) + 1e-12
        return float(near.sum() / (self.sampled.sum() * self.args.k))

    def export(self):
        """Exports the table; returns (a clock that includes the export, the rows)."""
        clock = Clock()
        _, rows = rows_in(postgres.copy_out(self.server, "", f"SELECT id, v FROM {TABLE} ORDER BY id"), self.d)
        clock.lap("export")
        return clock, rows


# --- the extension

def measure_ours(case):
    """Measures fasted_knn_join, whose result also gives the true distances of the k-th neighbours."""
    query = f"SELECT count(*), sum(dist) FROM {case.call()}"
    answer, times = case.server.timed(case.settings(), query, 1 + case.args.repeats)
    a, b, dist = pairs_in(postgres.copy_out(case.server, case.settings(), f"SELECT id_a, id_b, dist FROM {case.call()}"))
    if len(a) != case.n * case.args.k:
        sys.exit(f"{case.data}: fasted_knn_join returned {len(a)} neighbours instead of {case.n * case.args.k}")
    case.farthest = numpy.zeros(case.n)
    numpy.maximum.at(case.farthest, a, dist)
    return {**case.about(), "method": "fasted_knn_join", "answer": answer, "recall": case.recall(a, b),
            "seconds": {"first": times[:1], "warm": times[1:]}}


# --- peers: each returns the arrays a and b of the pairs, a clock, and facts to record

def lateral(case):
    """Returns the query of pgvector.

    It calls a function, because PostgreSQL does not use parallel workers for LATERAL with LIMIT.
    """
    operator = OPERATORS[case.metric][0]
    case.server.psql(pgvector.NEAREST.replace("<->", operator))
    return f"""SELECT a.id, b.id, b.dist FROM {pgvector.TABLE} AS a
        CROSS JOIN LATERAL nearest(a.v, {case.args.k + 1}) AS b"""


def by_pgvector(case, settings=""):
    clock = Clock(case.args.limit)
    data = postgres.copy_out(case.server, pgvector.parallel(case.args.workers) + settings, lateral(case), case.args.limit)
    clock.lap("query")
    a, b, _ = pairs_in(data)
    return a, b, clock, {}


def make_vectors(case):
    version = pgvector.require(case.server)
    pgvector.make_table(case.server, case.rows, case.args.workers)
    return version


def pgvector_lateral(case):
    version = make_vectors(case)
    return (*by_pgvector(case)[:3], {"version": version})


def hnsw(case, ef_search):
    clock = Clock(case.args.limit)
    if not case.server.psql(f"SELECT 1 FROM pg_indexes WHERE tablename = '{pgvector.TABLE}' AND indexdef LIKE '%hnsw%'"):
        make_vectors(case)
        case.server.psql(f"""{pgvector.parallel(case.args.workers)} SET maintenance_work_mem = '1GB';
            CREATE INDEX ON {pgvector.TABLE} USING hnsw (v {OPERATORS[case.metric][1]})""")
        clock.lap("index")
    a, b, found, _ = by_pgvector(case, f" SET hnsw.ef_search = {ef_search};")
    return a, b, found, {"ef_search": ef_search, "index_seconds": clock.parts.get("index")}


def without_self(found):
    """Converts an array (n, k + 1) of neighbours to (a, b), with k neighbours of each row other than the row itself."""
    n, k = found.shape
    a = numpy.repeat(numpy.arange(n), k)
    b = found.ravel().astype(numpy.int64)
    other = a != b
    order = (numpy.cumsum(other.reshape(n, k), axis=1).ravel() <= k - 1) & other
    return a[order], b[order]


def sklearn_neighbors(case):
    import sklearn
    from sklearn.neighbors import NearestNeighbors

    clock, rows = case.export()
    with sklearn.config_context(assume_finite=True):
        search = NearestNeighbors(n_neighbors=case.args.k + 1, algorithm="brute", n_jobs=-1,
                                  metric="euclidean" if case.metric == "l2" else "cosine").fit(rows)
        found = search.kneighbors(rows, return_distance=False)
    clock.lap("search")
    return (*without_self(found), clock, {"version": sklearn.__version__})


def faiss_flat(case):
    import faiss

    clock, rows = case.export()
    if case.metric == "cosine":
        faiss.normalize_L2(rows)
    index = faiss.IndexFlatL2(case.d) if case.metric == "l2" else faiss.IndexFlatIP(case.d)
    index.add(rows)
    _, found = index.search(rows, case.args.k + 1)
    clock.lap("search")
    return (*without_self(found), clock, {"version": faiss.__version__})


def usearch_hnsw(case):
    from peers import usearch_join

    clock, rows = case.export()
    found, _ = usearch_join.search(rows, case.args.k + 1, clock, "l2sq" if case.metric == "l2" else "cos")
    return (*without_self(found), clock, {"version": usearch_join.usearch.__version__})


def torch_topk(case):
    """Orders rows by x.y - |y|^2 / 2, which decreases with the distance.

    The rows are scaled, because the largest FP16 number is 65504.
    """
    import torch

    clock, rows = case.export()
    found = numpy.empty((case.n, case.args.k + 1), dtype=numpy.int64)
    rows = torch.from_numpy(rows).cuda()
    if case.metric == "l2":
        rows -= rows.mean(0)
    rows /= rows.norm(dim=1).max() if case.metric == "l2" else rows.norm(dim=1, keepdim=True)
    half = -0.5 * (rows * rows).sum(1).half()
    rows = rows.half()
    for first in range(0, case.n, TORCH_ROWS):
        near = torch.addmm(half, rows[first:first + TORCH_ROWS], rows.T)
        found[first:first + len(near)] = near.topk(case.args.k + 1).indices.cpu().numpy()
    clock.lap("search")
    return (*without_self(found), clock, {"version": torch.__version__})


def peers(args):
    if args.engine == "cuda":
        yield "torch", torch_topk
        return
    yield "pgvector lateral", pgvector_lateral
    for ef_search in args.ef_search:
        yield f"pgvector hnsw, ef_search {ef_search}", lambda case, ef=ef_search: hnsw(case, ef)
    yield "scikit-learn", sklearn_neighbors
    yield "faiss flat", faiss_flat
    yield "usearch", usearch_hnsw


def measure_peers(case):
    for name, peer in peers(case.args):
        about = {**case.about(), "method": name}
        try:
            a, b, clock, more = peer(case)
        except (ImportError, Unavailable, TimeLimit) as error:
            yield {**about, "reason": f"{error}"}
            continue
        seconds = clock.seconds()
        recall = case.recall(a, b)
        print(f"  {name}: {seconds:.3f} s, recall {recall:.5f}", flush=True)
        yield {**about, **more, "seconds": {"warm": [seconds]}, "parts": {"seconds": clock.parts}, "recall": recall}


# --- the whole benchmark

def measure(case):
    ours = measure_ours(case)
    print(f"  {ours['method']}: {statistics.median(ours['seconds']['warm']):.3f} s", flush=True)
    yield ours
    if not case.args.no_peers:
        yield from measure_peers(case)


def page(env, measurements):
    lines = ["# Nearest neighbours", "", "Written by `bench/nearest/run.py`. The time of fasted_knn_join is the median of warm calls.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "storage", "revision", "date") if env.get(name)]
    ours = None
    for m in measurements:
        if m["method"] == "fasted_knn_join":
            ours = statistics.median(m["seconds"]["warm"])
            lines += ["", f"{m['data']}, {m['rows']} x {m['dimensions']}, {m['metric']}, {m['k']} neighbours per row", "",
                      "| method | time, s | time / fasted_knn_join | recall | index build, s |", "|---|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['method']} | {m['reason']} | | | |")
            continue
        seconds = statistics.median(m["seconds"]["warm"])
        index = f"{m['index_seconds']:.1f}" if m.get("index_seconds") else ""
        lines.append(f"| {m['method']} | {seconds:.3f} | {seconds / ours:.1f} | {m['recall']:.5f} | {index} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="cpu: build the extension without CUDA")
    parser.add_argument("--data", nargs="+", help="data sets of bench/datasets, as NAME=ROWS or NAME=ROWS:cosine")
    parser.add_argument("--k", type=int, default=10, help="number of neighbours per row")
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="number of warm calls of fasted_knn_join")
    parser.add_argument("--threads", type=int, help="fasted.threads; by default one per CPU")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count()), help="number of PostgreSQL's parallel workers")
    parser.add_argument("--memory-gib", type=int, default=16, help="fasted.memory_limit in GiB")
    parser.add_argument("--ef-search", type=int, nargs="*", default=[40, 200], help="values of hnsw.ef_search")
    parser.add_argument("--limit", type=float, default=900, help="time limit of a statement of pgvector, in seconds")
    parser.add_argument("--no-peers", action="store_true", help="do not run the peers")
    return parser.parse_args()


def main():
    args = arguments()
    measurements = []
    build = [gpu_architectures()] if args.engine == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers()
        env = environment(server)
        for named in args.data or CASES[args.engine]:
            case = Case(server, args, named)
            print(f"{case.data}: {case.n} x {case.d}, {case.metric}", flush=True)
            measurements += measure(case)
    path = record.save(record.machine_name(env), "nearest",
                       {"benchmark": "nearest", "environment": env, "settings": vars(args), "measurements": measurements})
    path.with_suffix(".md").write_text(page(env, measurements))
    print(page(env, measurements))


if __name__ == "__main__":
    main()
