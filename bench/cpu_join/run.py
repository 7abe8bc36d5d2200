#!/usr/bin/env python3
"""The CPU engine inside PostgreSQL, beside sgemm and beside the nested loop.

    bench/cpu_join/run.py [--rows 20000] [--dimensions 128 960] [--threads 2]
                          [--repeats 5] [--no-nested-loop]

Starts a private PostgreSQL with the extension, makes tables of normal random
vectors, and measures in turn, interleaved so that a slow phase of the machine
hits all of them:

  join      SELECT count(*) FROM fasted_self_join(...), table read included, eps
            such that a row has 64 neighbours on average (S = 64)
  sgemm     OpenBLAS's product of the same n x n x d, with every core type that
            runs here; the whole product in one call, and in tiles
  nested    a.id < b.id AND distance(a.v, b.v) < eps by two parallel workers, with
            pgvector where it is there, else with l2_distance.c; measured once

All tables store vectors PLAIN, in line, as doc/limits.md advises.  Rates are
2 n n d / seconds.  Writes JSON and a table to bench/results/<machine>/.
Needs libopenblas-dev and a C compiler; see doc/development.md for the rest.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SERVER = TOP / "test/setup/private-server"
CORE_TYPES = ["", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids"]
NEIGHBOURS = 64


def output(*command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


class Server:
    """A private PostgreSQL with the extension installed."""

    def __init__(self, directory):
        self.directory = directory
        self.env = dict(os.environ)
        print("building, and starting a private PostgreSQL", flush=True)
        self.start()
        # so that the nested loop finds its table in shared buffers
        self.psql("ALTER SYSTEM SET shared_buffers = '1GB'")
        self.start()

    def start(self):
        exports = output(SERVER, "start", self.directory, "NVCC=")
        for line in output("bash", "-c", f"{exports}\nenv").splitlines():
            name, _, value = line.partition("=")
            if name.startswith("PG") or name == "PATH":
                self.env[name] = value

    def psql(self, sql):
        return output("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", input=sql, env=self.env).strip()

    def timed(self, settings, query):
        """Runs query in a session of its own; returns (answer, seconds)."""
        lines = self.psql(f"{settings}\n\\timing on\n{query};").splitlines()
        ms = re.search(r"Time: ([0-9.]+) ms", lines[-1])
        return lines[-2], float(ms.group(1)) / 1000

    def install_distance(self, scratch):
        """The nested loop's distance: (name, column type, expression)."""
        if self.psql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == "1":
            self.psql("CREATE EXTENSION IF NOT EXISTS vector")
            version = self.psql("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            return f"pgvector {version}", "vector", "a.v <-> b.v"
        library = Path(scratch) / "l2_distance.so"
        include = output("pg_config", "--includedir-server", env=self.env).strip()
        subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-I", include,
                        "-o", library, HERE / "l2_distance.c"], check=True)
        library.chmod(0o755)
        self.psql(f"""CREATE FUNCTION bench_l2_distance(real[], real[]) RETURNS float8
                      AS '{library}' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE""")
        return "l2_distance.c", "real[]", "bench_l2_distance(a.v, b.v)"

    def remove(self):
        subprocess.run([SERVER, "remove", self.directory], check=True)


def describe_machine(server):
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    revision = os.environ.get("FASTED_REVISION") or output("git", "-C", TOP, "describe", "--always").strip()
    return {
        "processor": cpu.group(1).strip() if cpu else os.uname().machine,
        "processors": os.cpu_count(),
        "system": output("sh", "-c", ". /etc/os-release; echo $PRETTY_NAME").strip(),
        "postgresql": server.psql("SHOW server_version"),
        "compiler": output("cc", "--version").splitlines()[0],
        "revision": revision,
        "date": time.strftime("%Y-%m-%d"),
    }


def make_tables(server, n, d):
    # a seed, so that the same numbers come every time
    server.psql(f"""
        DROP TABLE IF EXISTS items, sample;
        CREATE TABLE items (id bigint PRIMARY KEY, v real[]);
        ALTER TABLE items ALTER COLUMN v SET STORAGE PLAIN;
        SELECT setseed(0.5);
        INSERT INTO items SELECT i, ARRAY(
            SELECT (sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) + 0 * i)::real
            FROM generate_series(1, {d})) FROM generate_series(1, {n}) AS i;
        CREATE TABLE sample AS SELECT * FROM items ORDER BY id LIMIT 2000;
        VACUUM ANALYZE items, sample;""")
    share = NEIGHBOURS / n
    return float(server.psql(f"""
        SELECT percentile_disc({share}) WITHIN GROUP (ORDER BY dist)
        FROM fasted_self_join('sample', 'v', 'Infinity', id_column => 'id')"""))


def build_sgemm(directory):
    program = Path(directory) / "sgemm"
    try:
        subprocess.run(["cc", "-O2", "-o", program, HERE / "sgemm.c", "-lopenblas", "-lm"], check=True)
    except subprocess.CalledProcessError:
        sys.exit("sgemm.c could not be built: install libopenblas-dev")
    return program


def run_sgemm(program, core_type, n, d, threads, repeats):
    """{core, full: [s], tiled: [s]}, or None where the core type can't run."""
    env = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads))
    if core_type:
        env["OPENBLAS_CORETYPE"] = core_type
    result = subprocess.run([program, str(n), str(d), str(threads), str(repeats)],
                            text=True, capture_output=True, env=env)
    if result.returncode != 0:
        return None
    core, *lines = result.stdout.split("\n")
    times = [list(map(float, line.split())) for line in lines if line]
    return {"core": core, "full": [t[0] for t in times], "tiled": [t[1] for t in times]}


def best_core_types(program, n, d, threads):
    """The core types that run here, fastest first, by a short trial."""
    trial = {c: run_sgemm(program, c, min(n, 8000), d, threads, 2) for c in CORE_TYPES}
    alive = {c: min(t["full"]) for c, t in trial.items() if t}
    return sorted(alive, key=alive.get)


def measure(server, program, n, d, threads, repeats):
    eps = make_tables(server, n, d)
    settings = f"SET fasted.engine = cpu; SET fasted.threads = {threads};"
    query = f"SELECT count(*) FROM fasted_self_join('items', 'v', {eps!r})"
    core_types = best_core_types(program, n, d, threads)
    joins, sgemms = [], {c: {"full": [], "tiled": []} for c in core_types[:2]}

    server.timed(settings, query)
    for r in range(repeats):
        pairs, seconds = server.timed(settings, query)
        joins.append(seconds)
        for c in sgemms:
            one = run_sgemm(program, c, n, d, threads, 1)
            sgemms[c]["core"] = one["core"]
            for form in ("full", "tiled"):
                sgemms[c][form] += one[form]
        print(f"  d = {d}, {r + 1} of {repeats}: join {seconds:.3f} s", flush=True)
    return {"n": n, "d": d, "eps": eps, "pairs": int(pairs), "threads": threads,
            "neighbours": 2 * int(pairs) / n, "join": joins, "sgemm": list(sgemms.values())}


def measure_nested_loop(server, row, distance):
    name, column_type, expression = distance
    server.psql(f"""
        DROP TABLE IF EXISTS nested;
        CREATE TABLE nested (id bigint PRIMARY KEY, v {column_type});
        ALTER TABLE nested ALTER COLUMN v SET STORAGE PLAIN;
        INSERT INTO nested SELECT id, v::{column_type} FROM items;
        VACUUM ANALYZE nested;""")
    settings = """SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;
        SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
        SET seq_page_cost = 0; SET enable_indexscan = off; SET enable_bitmapscan = off; SET jit = off; SET work_mem = '256MB';"""
    query = f"SELECT count(*) FROM nested a JOIN nested b ON a.id < b.id AND {expression} < {row['eps']!r}"
    plan = server.psql(f"{settings}\nEXPLAIN {query};")
    if "Workers Planned: 2" not in plan:
        sys.exit(f"the nested loop is not parallel:\n{plan}")
    pairs, seconds = server.timed(settings, query)
    row["nested_loop"] = {"distance": name, "seconds": seconds, "pairs": int(pairs)}
    print(f"  d = {row['d']}: nested loop {seconds:.1f} s", flush=True)


def summary(row):
    """Adds medians and ratios."""
    flop = 2.0 * row["n"] ** 2 * row["d"]
    join = statistics.median(row["join"])
    full = {g["core"]: statistics.median(g["full"]) for g in row["sgemm"]}
    tiled = {g["core"]: statistics.median(g["tiled"]) for g in row["sgemm"]}
    row["summary"] = {
        "join_seconds": join, "join_gflops": flop / join / 1e9,
        "sgemm_core": min(full, key=full.get),
        "sgemm_full_gflops": flop / min(full.values()) / 1e9,
        "sgemm_tiled_gflops": flop / min(tiled.values()) / 1e9,
        "over_sgemm_full": min(full.values()) / join,
        "over_sgemm_tiled": min(tiled.values()) / join,
    }
    if "nested_loop" in row:
        row["summary"]["over_nested_loop"] = row["nested_loop"]["seconds"] / join


def table(machine, rows):
    lines = ["# The join on the CPU", "",
             "Written by `bench/cpu_join/run.py`; rates are 2 n n d / t, medians.", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| n | d | pairs | join, s | join, GFLOPS | sgemm, GFLOPS (whole, tiled) | join / sgemm (whole, tiled) "
              "| nested loop, s | join / nested loop |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        s = row["summary"]
        nested = row.get("nested_loop")
        lines.append(
            f"| {row['n']} | {row['d']} | {row['pairs']} | {s['join_seconds']:.3f} "
            f"({min(row['join']):.3f} to {max(row['join']):.3f}) | {s['join_gflops']:.0f} "
            f"| {s['sgemm_full_gflops']:.0f}, {s['sgemm_tiled_gflops']:.0f} ({s['sgemm_core']}) "
            f"| {s['over_sgemm_full']:.2f}, {s['over_sgemm_tiled']:.2f} "
            + (f"| {nested['seconds']:.1f} ({nested['distance']}) | {s['over_nested_loop']:.0f} |"
               if nested else "| | |"))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[128, 960])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-nested-loop", action="store_true")
    args = parser.parse_args()

    scratch = tempfile.mkdtemp(prefix="fasted-bench-")
    os.chmod(scratch, 0o1777)     # the server's user makes its directory in it
    server = Server(f"{scratch}/pg")
    try:
        server.psql("CREATE EXTENSION fasted")
        program = build_sgemm(scratch)
        distance = None if args.no_nested_loop else server.install_distance(scratch)
        machine = describe_machine(server)
        rows = []
        for d in args.dimensions:
            row = measure(server, program, args.rows, d, args.threads, args.repeats)
            if distance:
                measure_nested_loop(server, row, distance)
            summary(row)
            rows.append(row)
    finally:
        server.remove()
        shutil.rmtree(scratch, ignore_errors=True)

    name = re.sub(r"[^a-z0-9]+", "-", f"{machine['processor']} {machine['processors']} cores".lower()).strip("-")
    results = TOP / "bench/results" / name
    results.mkdir(parents=True, exist_ok=True)
    (results / "cpu_join.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    (results / "cpu_join.md").write_text(table(machine, rows))
    print(table(machine, rows))


if __name__ == "__main__":
    main()
