#!/usr/bin/env python3
"""Measure the join inside PostgreSQL and its peers, end to end, on real and generated data.

    bench/real_world/run.py --data NAME [NAME ...] [--selectivity 64 128 256] [--rows 100000]
                            [--only "fasted cuda" torch] [--repeats 5] [--limit-seconds 30] [--add]
    bench/real_world/run.py --large ...

For each data set and each S (mean number of neighbours), every method joins all rows.  Its
result is compared with the exact result, pair by pair.  If a method is predicted to take
longer than --limit-seconds (plan.py), it joins only the first rows of the data set.  Then
the join inside PostgreSQL also runs with this number of rows and the eps for S there.

The exact result is computed by the extension.  It is checked with numpy, which finds all
pairs of --checked-rows rows in FP64.  If the result has more than --compared-pairs pairs,
only the pairs of these rows are fetched from the server.  A measurement that is still
predicted to exceed the limit is skipped, and the results give the reason.

After every method, the results are written to bench/results/<machine>/real_world.json.
With --large, which uses data sets of the paper's sizes, they are written to
real_world_large.json.  With --add, the measurements in an existing file of the same
revision are retained.  The benchmark needs numpy, and each peer needs its library (see
bench/peers/README.md).
"""
import argparse
import json
import os
import sys
import traceback
from pathlib import Path

import numpy

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "real_world")]
import epsilon  # noqa: E402
import ours  # noqa: E402
import others  # noqa: E402
import plan  # noqa: E402
import record  # noqa: E402
from check import Check  # noqa: E402
from peers import compare, postgres  # noqa: E402
from peers.answer import Clock, TimeLimit, Unavailable, Unsuitable  # noqa: E402
from server import environment, gpu_architectures, private_server  # noqa: E402

KEY = ("data", "rows", "selectivity", "method", "output")
TABLE = "items"
DATA = ["debian-text", "debian-minilm", "debian-wordllama", "wallpaper-sift", "embedding-512=60000", "gist-like"]
LARGE_DATA = ["wallpaper-sift", "minilm-like", "gist-like", "sift-like=1000000", "tiny-like", "sift-like"]


class Results:
    """All measurements, which are written to the results file after each new one."""

    def __init__(self, args, about):
        self.name = args.results or ("real_world_large" if args.large else "real_world")
        self.settings, self.about = {**vars(args), "seed": epsilon.SEED}, about
        self.measurements = self.earlier() if args.add else []

    def earlier(self):
        env = record.environment()
        path = record.path_of(record.machine_name(env), self.name)
        if not path.exists():
            return []
        found = json.loads(path.read_text())
        if found["environment"]["revision"] != env["revision"]:
            sys.exit(f"{path} contains results of revision {found['environment']['revision']}: --add cannot mix two revisions")
        return found["measurements"]

    def add(self, measurement):
        """Adds a measurement, or replaces an earlier one with the same key; empty fields are omitted."""
        def key(m):
            return tuple(m.get(name) for name in KEY)
        self.measurements = [m for m in self.measurements if key(m) != key(measurement)]
        self.measurements.append({name: value for name, value in measurement.items() if value not in (None, {})})
        record.write(self.name, self.settings, self.measurements, **self.about)


def first_and_warm(runs):
    """Separates the first run of a peer from the warm ones: {"first": runs[:1], "warm": runs[1:]}."""
    return {"first": runs[:1], "warm": runs[1:]} if len(runs) > 1 else {"first": runs}


class Case:
    """One data set with one number of rows and one S; the table contains the rows."""

    def __init__(self, run, data, rows, selectivity, eps):
        self.run, self.rows, self.selectivity, self.eps = run, rows, selectivity, eps
        self.key = {"data": data, "rows": len(rows), "selectivity": selectivity}
        self.about = {**self.key, "dimensions": rows.shape[1], "eps": eps}
        self.pairs_expected = selectivity * len(rows) // 2
        self.exact = self.digest = None
        print(f"{data}: {len(rows)} x {rows.shape[1]}, S = {selectivity}, eps {eps:.6g}", flush=True)

    def join(self):
        return ours.join_of(TABLE, self.eps)

    def settings(self, method):
        return self.run.session + ours.METHODS[method][0]

    def find_exact(self, engine, check):
        """Computes and checks the exact result; self.exact stays None if there are too many pairs to compare."""
        call = (self.run.server, self.settings(engine), self.join())
        if self.pairs_expected <= self.run.args.compared_pairs:
            pairs = ours.pairs(*call)
            self.exact = compare.each_once(pairs, len(self.rows))
            self.digest = self.digest_by(engine)
            sample = check.pairs_of_chosen(*pairs)
        else:
            self.check_limit("sample")
            sample = ours.pairs_of(*call, check.chosen)
        found = check.compare(sample, self.eps)
        print(f"  check in FP64 {'FAILED' if found['missed'] or found['spurious'] else 'passed'}: {found['checked_pairs']} pairs of "
              f"{found['checked_rows']} rows, missed {found['missed']}, spurious {found['spurious']}", flush=True)
        self.run.results.add({**self.about, "method": "check in FP64", **found})

    def check_limit(self, output, count_seconds=0):
        """Raises TimeLimit if the output is predicted to take longer than the limit."""
        seconds = plan.predict_output(output, self.pairs_expected, count_seconds)
        if seconds > self.run.args.limit_seconds:
            raise TimeLimit(f"predicted to take {seconds:.0f} s for about {self.pairs_expected} pairs")

    def digest_by(self, method):
        return ours.digest(self.run.server, self.settings(method), self.join(), len(self.rows))

    def compared(self, found):
        """Compares the pairs (a, b, dist) with the exact result, if that is known and there are not too many pairs."""
        if self.exact is None or len(found[0]) > 2 * self.run.args.compared_pairs:
            return {"pairs": len(found[0])}
        return compare.compare_with(self.exact, found, len(self.rows))

    def measure(self, method):
        (self.measure_ours if method in ours.METHODS else self.measure_peer)(method)

    def answer_of_ours(self, method):
        """Compares a method of the extension with the exact result; equal digests mean equal results."""
        if self.exact is None:
            return {}
        if self.digest_by(method) == self.digest:
            return {"missed": 0, "spurious": 0}
        return self.compared(ours.pairs(self.run.server, self.settings(method), self.join()))

    def explain(self, method, output, warm_seconds):
        """Returns the parts of the time of a call, or None for the output "table"."""
        if output == "table":
            return None
        query = f"SELECT {'count(*)' if output == 'count' else 'sum(dist)'} FROM {self.join()}"
        calls = int(self.run.args.limit_seconds / 2 / max(warm_seconds, 0.001))
        return ours.explain(self.run.server, self.settings(method), query, max(0, min(self.run.args.repeats, calls - 1)))

    def measure_ours(self, method):
        answer, count_seconds = self.answer_of_ours(method), 0
        for output in ours.METHODS[method][1]:
            if output not in self.outputs():
                continue
            times = self.run.attempt({**self.key, "output": output}, method,
                                     lambda: self.measure_output(method, output, answer, count_seconds))
            if output == "count" and times:
                count_seconds = min(times["warm"])

    def outputs(self):
        """Returns the selected outputs; only "count" if no peer runs with this S."""
        wanted = self.run.args.output or list(ours.QUERIES)
        return [output for output in wanted if output == "count" or self.selectivity in self.run.args.peer_selectivity]

    def measure_output(self, method, output, answer, count_seconds):
        """Measures one output and returns {call: [seconds, ...]}; adds the number of pairs to the answer."""
        args, server, settings = self.run.args, self.run.server, self.settings(method)
        self.check_limit(output, count_seconds)
        with record.GpuMonitor() as gpu:
            times, count = ours.calls(server, settings, output, self.join(), args.limit_seconds, args.repeats)
        if count is not None:
            answer["pairs"] = count
        self.run.results.add({**self.about, "method": method, "output": output, **answer, "seconds": times,
                              "parts": self.explain(method, output, min(times["warm"])), "gpu": gpu.summary()})
        print(f"  {method}, {output}: first {min(times['first']):.3f} s, warm {min(times['warm']):.3f} s, "
              f"missed {answer.get('missed')}, spurious {answer.get('spurious')}", flush=True)
        return times

    def measure_peer(self, method):
        args = self.run.args
        join = self.run.join_by(method, self.selectivity)
        clock, seconds, parts = Clock(), [], []
        with record.GpuMonitor() as gpu:
            while plan.may_repeat(len(seconds), args.repeats + 1, clock.seconds(), args.limit_seconds):
                answer = join(self.rows, self.eps, limit_seconds=3 * args.limit_seconds)
                seconds.append(answer.seconds)
                parts.append(answer.parts)
        self.run.after(method)
        result = self.compared((answer.a, answer.b, answer.dist))
        self.run.results.add({**self.about, "method": method, "output": "rows", "about": answer.about, **result,
                              "seconds": first_and_warm(seconds),
                              "parts": {name: first_and_warm([one[name] for one in parts]) for name in parts[-1]},
                              "gpu": gpu.summary()})
        print(f"  {method}: {min(seconds):.3f} s, missed {result.get('missed')}, spurious {result.get('spurious')}", flush=True)


class Run:
    """The benchmark: its arguments, server, methods and results."""

    def __init__(self, args, server, about):
        self.args, self.server = args, server
        self.session = ours.session_settings(args.workers, args.memory_gib)
        self.results = Results(args, about)
        self.methods = plan.select_methods([*ours.METHODS, *others.METHODS], args.only)
        self.engine = "fasted cuda" if args.device == "cuda" else "fasted cpu"
        self.unavailable = set()
        if args.device == "cpu":
            self.methods = [method for method in self.methods if method in others.METHODS or method == "fasted cpu"]

    def join_by(self, method, selectivity):
        return others.join_by(method, self.server, TABLE, selectivity, self.args.workers, self.args.device)

    def after(self, method):
        """Releases the GPU memory of a peer."""
        if method in others.ON_GPU:
            others.import_peer("torch_join").release()

    def known_rows(self, method, n, d):
        """Returns the number of rows for a method that needs no pilot, or None if it needs one."""
        if self.args.device != "cuda" or method == "fasted cpu":
            return None
        if method in ours.METHODS:
            return n
        if method in others.ON_GPU:
            most = max(self.args.peer_selectivity)
            return plan.largest_count(n, lambda count: plan.predict_gpu(method, count, d, most), self.args.limit_seconds)
        return None

    def attempt(self, key, method, work):
        """Runs work() and returns its result, or None if it fails.

        A failure does not stop the benchmark.  Its reason is recorded with the key {data, ...}.
        """
        try:
            return work()
        except Unavailable as error:
            self.unavailable.add(method)
            key, reason = {"data": key["data"]}, f"not available: {error}"
        except Unsuitable as error:
            key, reason = {"data": key["data"]}, str(error)
        except TimeLimit as error:
            reason = f"time limit exceeded: {error}"
        except Exception as error:
            traceback.print_exc()
            reason = f"failed: {getattr(error, 'stderr', None) or error}"
        print(f"  {method}: {reason}", flush=True)
        self.results.add({**key, "method": method, "reason": reason})
        return None

    def pilot(self, case, method):
        """Returns the seconds of the second call with the few rows of the pilot."""
        if method in ours.METHODS:
            query = ours.QUERIES["rows"].format(join=case.join())
            return self.server.timed(case.settings(method), query, 2)[1][-1]
        join = self.join_by(method, case.selectivity)
        return [join(case.rows, case.eps, limit_seconds=self.args.limit_seconds).seconds for _ in range(2)][-1]

    def row_counts(self, data, rows):
        """Returns {method: number of rows}, from pilots with few rows and the middle S."""
        n = len(rows)
        known = {method: self.known_rows(method, *rows.shape) for method in self.methods}
        counts = {method: count for method, count in known.items() if count}
        slow = [method for method in self.methods if method not in counts]
        if not slow:
            return counts
        small = rows[:self.args.pilot_rows]
        postgres.fill(self.server, TABLE, small)
        middle = sorted(self.args.selectivity)[len(self.args.selectivity) // 2]
        case = Case(self, data, small, middle, epsilon.choose(self.server, TABLE, small, [middle])[middle])
        for method in slow:
            seconds = self.attempt({"data": data}, method, lambda: self.pilot(case, method))
            if seconds is None:
                continue
            count = plan.rows_within(method, n, len(small), seconds, self.args.limit_seconds)
            predicted = plan.predict(method, n, len(small), seconds)
            print(f"  {method}: {seconds:.3f} s for {len(small)} rows, predicted {predicted:.1f} s for {n} rows; "
                  f"runs with {count} rows", flush=True)
            if count:
                counts[method] = count
        return counts

    def methods_at(self, counts, n, selectivity):
        """Returns the methods that run with n rows and this S.

        They always include the join inside PostgreSQL, because ratios compare times for the same rows.
        """
        here = [method for method in self.methods if counts.get(method) == n and method not in self.unavailable
                and (method in ours.METHODS or selectivity in self.args.peer_selectivity)]
        return [self.engine, *here] if here and self.engine not in here else here

    def data_set(self, data, rows):
        """Measures all methods on one data set."""
        rows = numpy.ascontiguousarray(rows, dtype=numpy.float32)
        counts = self.row_counts(data, rows)
        for n in sorted(set(counts.values()), reverse=True):
            selectivities = [s for s in self.args.selectivity if self.methods_at(counts, n, s)]
            if selectivities:
                self.part(data, rows[:n], selectivities, counts)

    def part(self, data, rows, selectivities, counts):
        """Measures all methods that run with this number of rows."""
        n = len(rows)
        clock = Clock()
        postgres.fill(self.server, TABLE, rows)
        clock.lap("table")
        found = epsilon.choose(self.server, TABLE, rows, selectivities)
        clock.lap("eps")
        check = Check(rows, self.args.checked_rows, max(found.values()))
        clock.lap("FP64")
        print(f"{data}: {n} rows:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in clock.parts.items()), flush=True)
        for selectivity, eps in found.items():
            case = Case(self, data, rows, selectivity, eps)
            self.attempt(case.key, "check in FP64 of the answer", lambda: case.find_exact(self.engine, check))
            for method in self.methods_at(counts, n, selectivity):
                self.attempt(case.key, method, lambda: case.measure(method))
        if self.args.gemm and self.args.device == "cuda":
            self.attempt({"data": data, "rows": n}, "cuBLAS GEMM alone", lambda: self.gemm(data, rows))

    def gemm(self, data, rows):
        """Measures cuBLAS's matrix products of the rows."""
        limit = self.args.limit_seconds
        if (seconds := plan.predict_gemm(*rows.shape)) > limit:
            raise TimeLimit(f"predicted to take {seconds:.0f} s")
        for form, seconds in others.import_peer("torch_join").gemm_floor(rows, limit_seconds=limit).items():
            self.results.add({"data": data, "rows": len(rows), "dimensions": rows.shape[1], "method": "cuBLAS GEMM alone",
                              "output": form, "seconds": {"warm": list(seconds)}})
        others.import_peer("torch_join").release()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", help="data sets of bench/datasets, as NAME or NAME=ROWS")
    parser.add_argument("--large", action="store_true", help="use data sets of the paper's sizes, and write real_world_large.json")
    parser.add_argument("--results", help="name of the results file, without .json; by default real_world")
    parser.add_argument("--rows", type=int, help="number of rows of data sets that are given without ROWS; by default all")
    parser.add_argument("--selectivity", nargs="+", type=int, default=[64, 128, 256], help="mean numbers of neighbours per row")
    parser.add_argument("--peer-selectivity", nargs="+", type=int, help="values of --selectivity for which the peers, and outputs "
                        "other than the count, are measured; by default all")
    parser.add_argument("--only", nargs="+", help="measure only the methods with these names, or whose name contains one of these words")
    parser.add_argument("--output", nargs="+", choices=sorted(ours.QUERIES), help="outputs of the join inside PostgreSQL; by default all")
    parser.add_argument("--repeats", type=int, default=record.REPEATS, help="maximum number of repetitions")
    parser.add_argument("--limit-seconds", type=float, default=30, help="time limit of one call, and of all repetitions of a method")
    parser.add_argument("--pilot-rows", type=int, default=10000, help="number of rows of a pilot")
    parser.add_argument("--compared-pairs", type=int, default=35_000_000, help="maximum number of pairs that are compared")
    parser.add_argument("--checked-rows", type=int, default=300, help="number of rows whose pairs numpy finds in FP64")
    parser.add_argument("--workers", type=int, default=ours.default_workers(), help="number of PostgreSQL's parallel workers")
    parser.add_argument("--memory-gib", type=int, default=16, help="fasted.memory_limit in GiB")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: build the extension without CUDA")
    parser.add_argument("--gemm", action="store_true", help="also measure cuBLAS's matrix products")
    parser.add_argument("--add", action="store_true", help="retain the measurements in an existing results file of the same revision")
    args = parser.parse_args()
    args.data = args.data or (LARGE_DATA if args.large else DATA)
    args.peer_selectivity = args.peer_selectivity or args.selectivity
    return args


def main():
    args = arguments()
    from datasets import load

    build = [gpu_architectures()] if args.device == "cuda" else ["with_llvm=no", "NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers(max_wal_size="16GB")
        run = Run(args, server, {**environment(server), "processors_used": os.cpu_count()})
        for named in args.data:
            data, _, rows = named.partition("=")
            run.attempt({"data": data}, "data set", lambda: run.data_set(data, load(data, rows=int(rows) if rows else args.rows)))


if __name__ == "__main__":
    main()
