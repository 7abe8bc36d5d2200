"""A private PostgreSQL server with the extension, for the benchmarks."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import record

TOP = Path(__file__).resolve().parents[1]


def output(*command, **options):
    """Runs a command that must succeed; returns its standard output."""
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


class Server:
    """A private PostgreSQL server with the extension installed."""

    def __init__(self, directory, *make_arguments, top=TOP):
        self.directory = directory
        self.script = top / "test/setup/private-server"
        self.make_arguments = make_arguments
        self.env = dict(os.environ)
        print("building the extension and starting a private PostgreSQL server", flush=True)
        self.start()
        # large enough for the tables of a nested-loop join
        self.psql("ALTER SYSTEM SET shared_buffers = '1GB'")
        self.start()

    def start(self):
        """Starts or restarts the server, and sets the environment variables of its clients."""
        exports = output(self.script, "start", self.directory, *self.make_arguments)
        for line in output("bash", "-c", f"{exports}\nenv").splitlines():
            name, _, value = line.partition("=")
            if name.startswith("PG") or name == "PATH":
                self.env[name] = value

    def allow_workers(self, most=48, **settings):
        """Permits a number of parallel workers, changes other settings, and restarts the server."""
        for name, value in {"max_worker_processes": most, "max_parallel_workers": most, **settings}.items():
            self.psql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.start()

    def psql(self, sql):
        """Runs SQL in a new session; returns its output without alignment."""
        return output("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", input=sql, env=self.env).strip()

    def timed(self, settings, query, repeats=1):
        """Runs a query one or more times in a new session; returns (answer, [seconds, ...])."""
        lines = self.psql(f"{settings}\n\\timing on\n" + f"{query};\n" * repeats).splitlines()
        times = [re.search(r"Time: ([0-9.]+) ms", line) for line in lines]
        answer = lines[-2] if len(lines) > 1 else None
        return answer, [float(t.group(1)) / 1000 for t in times if t]

    def timed_in_turn(self, settings, queries, repeats):
        """Runs all queries {name: query} in turn in one session, 1 + repeats times; each query returns one row.

        Returns ({name: {"first": [s], "warm": [s, ...]}}, {name: answer}).
        """
        script = [settings, r"\timing on"] + [f"{query};" for query in queries.values()] * (1 + repeats)
        lines = self.psql("\n".join(script)).splitlines()
        seconds = [float(found[1]) / 1000 for found in (re.search(r"^Time: ([0-9.]+) ms", line) for line in lines) if found]
        answers = [line for line in lines if not line.startswith("Time: ")]
        each = {name: seconds[place::len(queries)] for place, name in enumerate(queries)}
        return {name: {"first": runs[:1], "warm": runs[1:]} for name, runs in each.items()}, dict(zip(queries, answers))

    def explained(self, settings, query):
        """Returns the join node of EXPLAIN (ANALYZE) of a later call of a query, or None if its plan has none."""
        plans = self.psql(f"{settings}\n{query};\nEXPLAIN (ANALYZE, FORMAT json) {query};")
        return join_node(json.loads(plans[plans.index("["):])[0]["Plan"])

    def remove(self):
        subprocess.run([self.script, "remove", self.directory], check=True)


@contextlib.contextmanager
def private_server(*make_arguments):
    """Provides (server, directory): a server with the extension created, in a temporary directory.

    If FASTED_BENCH_DIR is set, it names a permanent directory, so that the next benchmark can
    reuse the build.
    """
    permanent = os.environ.get("FASTED_BENCH_DIR")
    scratch = permanent or tempfile.mkdtemp(prefix="fasted-bench-")
    os.makedirs(scratch, exist_ok=True)
    os.chmod(scratch, 0o1777)     # the server's user creates its directory in it
    server = Server(f"{scratch}/pg", *make_arguments)
    try:
        server.psql("DROP EXTENSION IF EXISTS fasted CASCADE; CREATE EXTENSION fasted")
        yield server, scratch
    finally:
        if not permanent:
            server.remove()
            shutil.rmtree(scratch, ignore_errors=True)


def gpu_architectures():
    return f"CUDA_ARCHS={os.environ.get('CUDA_ARCHS', '90a')}"


def environment(server):
    """Returns the environment of a benchmark that fills tables with vectors."""
    return record.environment(postgresql=server.psql("SHOW server_version"), storage=record.STORAGE or "default")


def describe_machine(server):
    known = environment(server)
    return {name: known[name] for name in
            ("processor", "processors", "system", "postgresql", "storage", "compiler", "revision", "date")}


def set_storage(table, storage=record.STORAGE):
    """Returns SQL that sets the storage of the vectors, the column v of an empty table; by default FASTED_BENCH_STORAGE."""
    return f"ALTER TABLE {table} ALTER COLUMN v SET STORAGE {storage};" if storage else ""


def join_node(plan):
    """Returns the join node in a plan of EXPLAIN (ANALYZE, FORMAT json), or None if there is none."""
    if "Rows Read" in plan:
        return plan
    return next((found for found in map(join_node, plan.get("Plans", [])) if found), None)


def make_tables(server, n, d, neighbours):
    """Creates the table "items" with n rows of d normal random numbers, and "sample" with 2000 of these rows.

    Returns the eps at which a row has the given number of neighbours on average.
    """
    # setseed() makes the numbers reproducible
    server.psql(f"""
        DROP TABLE IF EXISTS items, sample;
        CREATE TABLE items (id bigint PRIMARY KEY, v real[]);
        {set_storage('items')}
        SELECT setseed(0.5);
        INSERT INTO items SELECT i, ARRAY(
            SELECT (sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) + 0 * i)::real
            FROM generate_series(1, {d})) FROM generate_series(1, {n}) AS i;
        CREATE TABLE sample AS SELECT * FROM items ORDER BY id LIMIT 2000;
        VACUUM ANALYZE items, sample;""")
    # estimate eps from the sample, and then take the distance of the pair with the desired rank
    guess = float(server.psql(f"""
        SELECT percentile_disc({1.2 * neighbours / n}) WITHIN GROUP (ORDER BY dist)
        FROM fasted_self_join('sample', 'v', 'Infinity', id_column => 'id')"""))
    return float(server.psql(f"""
        SELECT dist FROM fasted_self_join('items', 'v', {guess!r})
        ORDER BY dist OFFSET {neighbours * n // 2 - 1} LIMIT 1"""))


def write_results(name, machine_name, results, text):
    """Writes JSON and a page to bench/results/<machine>/, and prints the page."""
    path = record.save(record.folder_name(machine_name), name, results)
    path.with_suffix(".md").write_text(text)
    print(text)
