#!/usr/bin/env python3
"""Measure the first and later joins of a session, and concurrent sessions, on a GPU.

    bench/joins/sessions.py [--rows 200000] [--dimensions 128] [--sessions 32] [--repeats 5]

Each session counts the pairs of fasted_self_join of the same table.  Three times are measured:

  first       the first join of a session, which initializes the GPU
  later       the second join of the session
  concurrent  one join in each of --sessions new sessions that start together, until the last one
              ends; compared with the same joins one session after another

The benchmark fails if a session reports an error or finds another number of pairs.
"""
import argparse
import concurrent.futures
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from server import describe_machine, gpu_architectures, make_tables, private_server, write_results  # noqa: E402


def run_sessions(server, sql, sessions, together):
    """Runs the statement in new sessions, together or one after another; returns (answers, seconds)."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(sessions if together else 1) as pool:
        answers = set(pool.map(server.psql, [sql] * sessions))
    return answers, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", default="cuda", help="fasted.engine")
    args = parser.parse_args()

    with private_server(gpu_architectures() if args.engine == "cuda" else "NVCC=") as (server, _):
        server.allow_workers()
        machine = describe_machine(server)
        eps = make_tables(server, args.rows, args.dimensions, 64)
        settings = f"LOAD 'fasted'; SET fasted.engine = {args.engine}; SET client_min_messages = warning;"
        query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})"
        pairs = [server.timed(settings, query, 2) for _ in range(args.repeats)]
        answers = {answer for answer, _ in pairs}
        found = {"first": [seconds[0] for _, seconds in pairs], "later": [seconds[1] for _, seconds in pairs]}
        for name, together in (("serial", False), ("concurrent", True)):
            some, seconds = run_sessions(server, f"{settings} {query};", args.sessions, together)
            answers |= some
            found[name] = [seconds]
    if len(answers) != 1:
        sys.exit(f"different numbers of pairs: {answers}")
    lines = ["# Sessions on a GPU", "", "Written by `bench/joins/sessions.py`. Times are medians.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", f"{args.rows} x {args.dimensions}, {args.sessions} sessions:", "", "| case | time, s | range, s |", "|---|---|---|"]
    lines += [f"| {name} | {statistics.median(times):.3f} | {min(times):.3f} to {max(times):.3f} |" for name, times in found.items()]
    name = "NVIDIA H200" if args.engine == "cuda" else f"{machine['processor']} {machine['processors']} cores"
    write_results("sessions", name, {"machine": machine, "rows": args.rows, "dimensions": args.dimensions,
                                     "sessions": args.sessions, "times": found}, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
