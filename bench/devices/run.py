#!/usr/bin/env python3
"""Compare SQL statements on one GPU with the same statements on several GPUs of a machine.

    bench/devices/run.py [--devices 0 0,1] [--only count=sift-like=10000000 ...] [--repeats 3] [--workers 12]

  count      SELECT count(*) FROM fasted_self_join, with eps for 64 neighbours per row
  nearest    SELECT count(*) FROM fasted_knn_join, for the 10 nearest rows of each row

One session runs each statement several times in turn with each list of GPUs
(fasted.gpu_devices).  The first round, which initializes the GPUs, is not counted.  Times
are measured by psql.  Reading ends when the engine has received the last row.  All runs
must return the same answer.  The benchmark writes devices_statements.json and a page to
bench/results/.
"""
import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402
from datasets import load  # noqa: E402
from peers import postgres  # noqa: E402
from server import describe_machine, gpu_architectures, private_server, write_results  # noqa: E402

CASES = ["count=sift-like=10000000", "count=sift-like=1000000", "nearest=sift-like=1000000", "nearest=gist-like=1000000"]
EPS = {"sift-like": 122.5, "gist-like": 0.4736}         # for 64 neighbours per row, from the paper
SETTINGS = """LOAD 'fasted'; SET fasted.engine = {engine}; SET max_parallel_workers_per_gather = {workers}; SET jit = off;
    SET fasted.memory_limit = '40GB'; SET client_min_messages = debug1;"""
DONE = re.compile(r"fasted: \d+ rows of \d+ dimensions in ([0-9.]+) s, read in ([0-9.]+) s")


def query(what, data):
    if what == "count":
        return f"SELECT count(*) FROM fasted_self_join('items', 'v', {EPS[data]!r})"
    return "SELECT count(*) FROM fasted_knn_join('items', 'v', 'items', 'v', 10)"


def session_script(settings, statement, lists, rounds):
    """Returns the script of a session that runs the statement with each list of GPUs in turn, "rounds" times."""
    turn = "".join(f"\\timing off\nSET fasted.gpu_devices = '{devices}';\n\\timing on\n{statement};\n" for devices in lists)
    return f"{settings}\n" + turn * rounds


def measure(server, args, what, data):
    """Yields one measurement for each list of GPUs."""
    script = session_script(SETTINGS.format(engine=args.engine, workers=args.workers), query(what, data), args.devices, args.repeats + 1)
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1"], input=script, check=True, text=True, capture_output=True, env=server.env)
    seconds = [float(time) / 1000 for time in re.findall(r"^Time: ([0-9.]+) ms", done.stdout, re.M)]
    answers = re.findall(r"^(\d+)$", done.stdout, re.M)
    inside = [(float(time), float(read)) for time, read in DONE.findall(done.stderr)]
    many = len(args.devices)
    if len(set(answers)) != 1 or not len(seconds) == len(inside) == len(answers) == many * (args.repeats + 1):
        sys.exit(f"unexpected output for {what} of {data}: answers {answers}, {len(seconds)} times, {len(inside)} joins\n{done.stderr}")
    for number, devices in enumerate(args.devices):
        mine = slice(many + number, None, many)
        yield {"what": what, "data": data, "devices": devices, "answer": int(answers[0]), "seconds": seconds[mine],
               "reading": [read for _, read in inside[mine]], "join": [time for time, _ in inside[mine]]}


def table(machine, measurements):
    lines = ["# Statements on one GPU and on several GPUs", "", "Written by `bench/devices/run.py`. Times are medians, from the "
             "statement to its result. The lists of GPUs alternate within one session.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| statement | rows | GPUs | answer | time, s | range, s | reading, s | speedup over the first list |",
              "|---|---|---|---|---|---|---|---|"]
    first = {}
    for m in measurements:
        median = statistics.median(m["seconds"])
        alone = first.setdefault((m["what"], m["data"], m["rows"]), median)
        lines.append(f"| {m['what']} | {m['rows']} x {m['dimensions']} {m['data']} | {m['devices']} | {m['answer']} | {median:.3f} | "
                     f"{min(m['seconds']):.3f} to {max(m['seconds']):.3f} | {statistics.median(m['reading']):.3f} | {alone / median:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", default=["0", "0,1"], metavar="LIST", help="values of fasted.gpu_devices")
    parser.add_argument("--only", nargs="+", default=CASES, metavar="STATEMENT=DATA=ROWS", help="statements and data sets to measure")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each statement")
    parser.add_argument("--workers", type=int, default=12, help="number of PostgreSQL's parallel workers")
    parser.add_argument("--engine", default="cuda", help="fasted.engine")
    args = parser.parse_args()

    build = [gpu_architectures()] if args.engine == "cuda" else ["NVCC="]
    with private_server(*build) as (server, _):
        server.allow_workers(shared_buffers="4GB")
        machine = describe_machine(server)
        measurements, filled = [], None
        for case in args.only:
            what, data, count = case.split("=")
            if filled != (data, count):
                rows = load(data, rows=int(count))
                postgres.fill(server, "items", rows)
                filled = data, count
            for m in measure(server, args, what, data):
                measurements.append({**m, "rows": len(rows), "dimensions": rows.shape[1]})
                print(measurements[-1], flush=True)
            several = max(len(devices.split(",")) for devices in args.devices)
            many = {1: "", 2: "two "}.get(several, f"{several} ")
            name = many + record.gpu()["gpu"] if args.engine == "cuda" else machine["processor"]
            write_results("devices_statements", name, {"machine": machine, "measurements": measurements}, table(machine, measurements))


if __name__ == "__main__":
    main()
