#!/usr/bin/env python3
"""Measure joins of bit vectors inside PostgreSQL, beside FPSim2, FAISS and pgvector.

    bench/bits/run.py [--engine cpu | cuda] [--data molecules=100000:jaccard:0.2 wallpaper-hashes=1000000:hamming:10 ...]
                      [--repeats 5] [--share 0.05] [--nested-rows 4000] [--no-peers]

With --engine cuda, the default is a million generated fingerprints, without peers.  These
methods count the pairs within eps:

  fasted_self_join     in one session, from the statement to the count; the first call is recorded separately
  pgvector nested loop on the first --nested-rows rows, with parallel workers
  FPSim2               Jaccard distance: its search for each row among the later rows, one thread per CPU
  FAISS                Hamming distance: range_search of IndexBinaryFlat, one thread per CPU

FPSim2 and FAISS search for a random --share of the rows, and the nested loop joins the first
rows; the recorded seconds are those of the run, and `share` is the part of all pairs that it
compared.  FPSim2 and FAISS get the rows in memory: their times do not include reading the table.
The counts are compared: FPSim2 and FAISS find each pair from both sides.

Needs numpy; for the peers fpsim2 and faiss-cpu (PyPI), and pgvector.  Writes JSON and a page to
bench/results/<machine>/.
"""
import argparse
import os
import re
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402
import record  # noqa: E402
from peers import pgvector, postgres  # noqa: E402
from peers.answer import Clock, Unavailable  # noqa: E402
from peers.binary_copy import ROW_HEAD  # noqa: E402
from server import gpu_architectures, private_server  # noqa: E402

CASES = {"cpu": ["molecules=100000:jaccard:0.2", "fingerprints=100000:jaccard:0.2", "wallpaper-hashes=1000000:hamming:10",
                 "debian-simhash=200000:hamming:10"],
         "cuda": ["fingerprints=1000000:jaccard:0.2"]}
OPERATORS = {"hamming": "<~>", "jaccard": "<%>"}


class Case:
    """A table with rows of bits."""

    def __init__(self, server, args, named):
        found = re.fullmatch(r"([\w-]+)=(\d+):(hamming|jaccard):([\d.]+)", named)
        if not found:
            sys.exit(f"invalid data set {named}: expected NAME=ROWS:METRIC:EPS")
        self.server, self.args, self.data = server, args, found[1]
        self.metric, self.eps = found[3], float(found[4])
        self.rows = datasets.load(self.data)[:int(found[2])] if self.data != "fingerprints" else datasets.load(self.data, int(found[2]))
        self.n, self.bits = len(self.rows), 8 * self.rows.shape[1]
        self.pairs = None

    def about(self):
        return {"data": self.data, "rows": self.n, "bits": self.bits, "metric": self.metric, "eps": self.eps}

    def fill(self, table, rows):
        """Creates a table (id bigint primary key, v bit(n))."""
        record_type = numpy.dtype([*ROW_HEAD, ("bits", ">i4"), ("bytes", "u1", rows.shape[1])])
        out = numpy.zeros(len(rows), record_type)
        out["fields"], out["id_size"], out["id"] = 2, 8, numpy.arange(len(rows))
        out["v_size"], out["bits"], out["bytes"] = 4 + rows.shape[1], self.bits, rows
        self.server.psql(f"DROP TABLE IF EXISTS {table}; CREATE UNLOGGED TABLE {table} (id bigint, v bit({self.bits}))")
        postgres.copy_in(self.server, table, [memoryview(out).cast("B")])
        self.server.psql(f"ALTER TABLE {table} ADD PRIMARY KEY (id); VACUUM ANALYZE {table}")

    def sample(self):
        """Returns row numbers: a random share of all rows."""
        count = max(1, int(self.args.share * self.n))
        return numpy.random.default_rng(1).choice(self.n, count, replace=False)


def ours(case):
    case.fill("items", case.rows)
    settings = f"""SET fasted.engine = {case.args.engine}; SET fasted.threads = {case.args.threads or 0};
        SET max_parallel_workers_per_gather = {case.args.workers}; SET jit = off;"""
    query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {case.eps!r}, metric => '{case.metric}')"
    answer, times = case.server.timed(settings, query, 1 + case.args.repeats)
    case.pairs = int(answer)
    return {"pairs": case.pairs, "seconds": {"first": times[:1], "warm": times[1:]}}


def nested_loop(case):
    version = pgvector.require(case.server)
    rows = case.rows[:case.args.nested_rows]
    case.fill("few", rows)
    operator = OPERATORS[case.metric]
    case.server.psql(f"ALTER TABLE few SET (parallel_workers = {case.args.workers})")
    query = f"SELECT count(*) FROM few a JOIN few b ON a.id < b.id AND a.v {operator} b.v <= {case.eps!r}"
    _, times = case.server.timed(pgvector.parallel(case.args.workers) + " SET fasted.join_node = off;", query, 1)
    return {"version": version, "share": (len(rows) / case.n) ** 2, "seconds": {"warm": times}}


def fpsim2(case):
    """Searches for each chosen row among the rows after it, as FPSim2's symmetric_distance_matrix does for all rows."""
    import FPSim2
    from FPSim2.FPSim2 import METRICS, GenericSearch, get_bounds_range
    from FPSim2.io.backends.base import BaseStorageBackend

    ones = numpy.unpackbits(case.rows, axis=1).sum(1, dtype=numpy.uint64)
    fps = numpy.column_stack([numpy.arange(case.n, dtype=numpy.uint64), case.rows.view(">u8").astype(numpy.uint64), ones])
    fps = numpy.ascontiguousarray(fps[numpy.argsort(ones, kind="stable")])
    bins = BaseStorageBackend.calc_popcnt_bins(fps)
    chosen = case.sample()
    threshold = 1 - case.eps

    def search(row):
        first, end = get_bounds_range(fps[row], threshold, 0, 0, bins, "tanimoto")
        return len(GenericSearch(fps[row], fps, threshold, 0, METRICS["tanimoto"], max(int(row) + 1, first), end))

    clock = Clock()
    with ThreadPoolExecutor(case.args.threads or os.cpu_count()) as pool:
        found = sum(pool.map(search, chosen))
    return {"version": FPSim2.__version__, "share": len(chosen) / case.n, "found": found,
            "seconds": {"warm": [clock.seconds()]}}


def faiss_binary(case):
    import faiss

    index = faiss.IndexBinaryFlat(case.bits)
    index.add(case.rows)
    chosen = case.sample()
    clock = Clock()
    limits, _, _ = index.range_search(case.rows[chosen], int(case.eps) + 1)
    return {"version": faiss.__version__, "share": len(chosen) / case.n, "found": int(limits[-1]) - len(chosen),
            "seconds": {"warm": [clock.seconds()]}}


def methods(case):
    yield "fasted_self_join", ours
    if case.args.no_peers:
        return
    yield "pgvector nested loop", nested_loop
    yield ("FPSim2", fpsim2) if case.metric == "jaccard" else ("FAISS", faiss_binary)


def measure(case):
    for name, method in methods(case):
        about = {**case.about(), "method": name}
        try:
            found = method(case)
        except (ImportError, Unavailable) as error:
            print(f"  {name}: {error}", flush=True)
            yield {**about, "reason": f"{error}"}
            continue
        if "found" in found:
            # a share of the rows is searched, so the counts agree only roughly unless it is 1
            whole = found["found"] / found["share"] / (2 if name == "FAISS" else 1)
            if abs(whole - case.pairs) > (0 if found["share"] == 1 else 0.2 * case.pairs + 100):
                sys.exit(f"{name} finds {whole:.0f} pairs, fasted {case.pairs}")
        print(f"  {name}: {statistics.median(found['seconds']['warm']):.3f} s, share {found.get('share', 1):.5f}", flush=True)
        yield {**about, **found}


def page(env, measurements):
    lines = ["# Bit vectors", "", "Written by `bench/bits/run.py`. The time of `fasted_self_join` is the median of later calls. "
             "The time of another method is that of its run divided by the share of the pairs that it compared.", ""]
    lines += [f"- {name}: {env[name]}" for name in ("gpu", "processor", "processors", "postgresql", "revision", "date") if env.get(name)]
    for m in measurements:
        if m["method"] == "fasted_self_join":
            mine = statistics.median(m["seconds"]["warm"])
            lines += ["", f"{m['data']}, {m['rows']} x {m['bits']} bits, {m['metric']} distance at most {m['eps']}: {m['pairs']} pairs", "",
                      "| method | time, s | time / fasted_self_join | share |", "|---|---|---|---|"]
        if "reason" in m:
            lines.append(f"| {m['method']} | {m['reason']} | | |")
            continue
        seconds = statistics.median(m["seconds"]["warm"]) / m.get("share", 1)
        lines.append(f"| {m['method']} | {seconds:.3g} | {seconds / mine:.3g} | {m.get('share', 1):.3g} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="cpu: build the extension without CUDA")
    parser.add_argument("--data", nargs="+", help="data sets, as NAME=ROWS:METRIC:EPS")
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="number of later calls of fasted_self_join")
    parser.add_argument("--threads", type=int, help="fasted.threads, and threads of FPSim2; by default one per CPU")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count()), help="number of PostgreSQL's parallel workers")
    parser.add_argument("--share", type=float, default=0.05, help="share of the rows for which FPSim2 and FAISS search")
    parser.add_argument("--nested-rows", type=int, default=4000, help="number of rows of the nested loop")
    parser.add_argument("--no-peers", action="store_true", help="do not run the peers")
    return parser.parse_args()


def main():
    args = arguments()
    args.no_peers |= args.engine == "cuda"
    measurements = []
    build = [gpu_architectures()] if args.engine == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers()
        env = record.environment(postgresql=server.psql("SHOW server_version"))
        for named in args.data or CASES[args.engine]:
            case = Case(server, args, named)
            print(f"{case.data}: {case.n} x {case.bits} bits, {case.metric} {case.eps}", flush=True)
            measurements += measure(case)
    path = record.save(record.machine_name(env), "bits",
                       {"benchmark": "bits", "environment": env, "settings": vars(args), "measurements": measurements})
    path.with_suffix(".md").write_text(page(env, measurements))
    print(page(env, measurements))


if __name__ == "__main__":
    main()
