"""A private PostgreSQL with the extension, for the benchmarks."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import record

TOP = Path(__file__).resolve().parents[1]


def output(*command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


class Server:
    """A private PostgreSQL with the extension installed."""

    def __init__(self, directory, *make_arguments, top=TOP):
        self.directory = directory
        self.script = top / "test/setup/private-server"
        self.make_arguments = make_arguments
        self.env = dict(os.environ)
        print("building, and starting a private PostgreSQL", flush=True)
        self.start()
        # so that the nested loop finds its table in shared buffers
        self.psql("ALTER SYSTEM SET shared_buffers = '1GB'")
        self.start()

    def start(self):
        exports = output(self.script, "start", self.directory, *self.make_arguments)
        for line in output("bash", "-c", f"{exports}\nenv").splitlines():
            name, _, value = line.partition("=")
            if name.startswith("PG") or name == "PATH":
                self.env[name] = value

    def allow_workers(self, most=48, **settings):
        """Room for that many parallel workers, and other settings that a benchmark has."""
        for name, value in {"max_worker_processes": most, "max_parallel_workers": most, **settings}.items():
            self.psql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.start()

    def psql(self, sql):
        return output("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", input=sql, env=self.env).strip()

    def statistics(self, settings, query):
        """What the extension says of one join at DEBUG1: two lines."""
        result = subprocess.run(["psql", "-XqAt"], check=True, text=True, capture_output=True, env=self.env,
                                input=f"{settings}\nSET client_min_messages = debug1;\n{query};")
        return [line.split(":  ", 1)[1] for line in result.stderr.splitlines() if "fasted: " in line or "DETAIL:" in line]

    def timed(self, settings, query, repeats=1):
        """Runs query in one new session; returns (answer, [seconds, ...])."""
        lines = self.psql(f"{settings}\n\\timing on\n" + f"{query};\n" * repeats).splitlines()
        times = [re.search(r"Time: ([0-9.]+) ms", line) for line in lines]
        answer = lines[-2] if len(lines) > 1 else None
        return answer, [float(t.group(1)) / 1000 for t in times if t]

    def remove(self):
        subprocess.run([self.script, "remove", self.directory], check=True)


@contextlib.contextmanager
def private_server(*make_arguments):
    """A server with the extension created, in a directory that goes with it: (server, directory).

    FASTED_BENCH_DIR names a directory that stays, so that the next benchmark has nothing to build.
    """
    kept = os.environ.get("FASTED_BENCH_DIR")
    scratch = kept or tempfile.mkdtemp(prefix="fasted-bench-")
    os.makedirs(scratch, exist_ok=True)
    os.chmod(scratch, 0o1777)     # the server's user makes its directory in it
    server = Server(f"{scratch}/pg", *make_arguments)
    try:
        server.psql("DROP EXTENSION IF EXISTS fasted CASCADE; CREATE EXTENSION fasted")
        yield server, scratch
    finally:
        if not kept:
            server.remove()
            shutil.rmtree(scratch, ignore_errors=True)


def gpu_architectures():
    return f"CUDA_ARCHS={os.environ.get('CUDA_ARCHS', '90a')}"


def describe_machine(server):
    known = record.environment(postgresql=server.psql("SHOW server_version"))
    return {name: known[name] for name in
            ("processor", "processors", "system", "postgresql", "compiler", "revision", "date")}


def join_node(plan):
    """The join's node of a plan of EXPLAIN (ANALYZE, FORMAT json); None without one."""
    if "Rows Read" in plan:
        return plan
    return next((found for found in map(join_node, plan.get("Plans", [])) if found), None)


def make_tables(server, n, d, neighbours):
    """Tables "items" of n x d normal random numbers and "sample" of 2000 of them;
    returns the eps at which a row has that many neighbours on average."""
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
    # a guess from the sample, then the distance of the last pair wanted
    guess = float(server.psql(f"""
        SELECT percentile_disc({1.2 * neighbours / n}) WITHIN GROUP (ORDER BY dist)
        FROM fasted_self_join('sample', 'v', 'Infinity', id_column => 'id')"""))
    return float(server.psql(f"""
        SELECT dist FROM fasted_self_join('items', 'v', {guess!r})
        ORDER BY dist OFFSET {neighbours * n // 2 - 1} LIMIT 1"""))


def write_results(name, machine_name, results, text):
    """JSON and a page in bench/results/<machine>/."""
    path = record.save(record.folder_name(machine_name), name, results)
    path.with_suffix(".md").write_text(text)
    print(text)
