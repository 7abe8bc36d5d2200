"""Measure the join inside PostgreSQL, from the start of the SQL statement to its last row.

The outputs are:

  count     SELECT count(*), which creates no rows
  rows      all pairs are sent to the client in binary format, and the client discards them
  table     CREATE UNLOGGED TABLE AS stores the pairs in the database

The first call of a session ("first") initializes the GPU.  The next call of the same session
is "warm".
"""
import json
import os

from peers import postgres
from peers.answer import Clock
from peers.binary_copy import pairs_in
from plan import may_repeat
from server import join_node

JOIN = "fasted_self_join('{table}', 'v', {eps!r}, id_column => 'id')"
QUERIES = {
    "count": "SELECT count(*) FROM {join}",
    "rows": "\\copy (SELECT * FROM {join}) to '/dev/null' with (format binary)",
    "table": "CREATE UNLOGGED TABLE fasted_pairs AS SELECT * FROM {join}",
}

# name: (settings, outputs)
METHODS = {
    "fasted cuda": ("SET fasted.engine = cuda;", ("count", "rows", "table")),
    "fasted cuda fp16": ("SET fasted.engine = cuda; SET fasted.filter = fp16;", ("count",)),
    "fasted cuda int8": ("SET fasted.engine = cuda; SET fasted.filter = int8;", ("count",)),
    "fasted cpu": ("SET fasted.engine = cpu;", ("count", "rows", "table")),
}

# consecutive steps of the session
SESSION = {"Read Time": "read", "Wait Time": "wait", "Output Time": "output"}
# steps of the engine, concurrent with those of the session; the CPU engine adds up the times of its threads
ENGINE = {"Prepare Time": "prepare", "Filter Time": "filter", "Refine Time": "recheck", "Device Time": "device"}
FACTS = ("Distance Filter", "Kernel", "Candidates", "Panels", "Threads", "Host Memory", "Device Memory")


def session_settings(workers, memory_gib):
    return f"""SET max_parallel_workers_per_gather = {workers}; SET fasted.memory_limit = '{memory_gib}GB';
        SET jit = off; SET client_min_messages = warning;"""


def join_of(table, eps):
    return JOIN.format(table=table, eps=float(eps))


def explain(server, settings, query, repeats):
    """Returns the times in seconds, and other facts, that EXPLAIN (ANALYZE) reports for a warm call.

    The session runs the query once, and then "repeats" times.  The call with the median total
    of the latter is reported, or the first call if repeats is 0.

    session_seconds has the consecutive steps read, wait and output.  The rest of the total is
    start, aggregation and other work of the executor.  Reading includes the conversion of
    rows and their transfer to the engine, which copies them to the GPU at the same time.

    engine_seconds overlap with session_seconds.  On a GPU, device is the time from the first
    kernel of the filter to the last kernel of the recheck, filter and recheck are sums over
    kernels, and prepare is the quantization.  On a CPU, all are sums over threads.
    """
    analyze = f"EXPLAIN (ANALYZE, FORMAT json) {query};"
    answers = server.psql(f"{settings}\n" + f"\\echo ---\n{analyze}\n" * (1 + repeats))
    plans = [json.loads(answer)[0] for answer in answers.split("---\n")[1:]]
    plans = sorted(plans[1:] or plans, key=lambda plan: plan["Execution Time"])
    top = plans[(len(plans) - 1) // 2]
    found = join_node(top["Plan"])
    seconds = {name: {short: found[key] / 1000 for key, short in keys.items() if key in found}
               for name, keys in (("session_seconds", SESSION), ("engine_seconds", ENGINE))}
    return {"total": top["Execution Time"] / 1000, **seconds,
            **{key.lower().replace(" ", "_"): found[key] for key in FACTS if key in found}}


def calls(server, settings, output, join, limit_seconds, repeats):
    """Times first and warm calls, at most "repeats" sessions, as long as limit_seconds permit.

    Returns ({"first": [seconds, ...], "warm": [seconds, ...]}, count), where count is None for
    an output other than "count".
    """
    query = QUERIES[output].format(join=join)
    if output == "table":
        settings += "\nDROP TABLE IF EXISTS fasted_pairs;"
        query += ";\nDROP TABLE fasted_pairs"
    clock = Clock()
    times = {"first": [], "warm": []}
    answer = None
    while may_repeat(len(times["first"]), repeats, clock.seconds(), limit_seconds):
        answer, seconds = server.timed(settings, query, 2)
        # every other statement drops the table
        seconds = seconds[::2] if output == "table" else seconds
        times["first"].append(seconds[0])
        times["warm"] += seconds[1:]
    return times, int(answer) if output == "count" else None


def pairs(server, settings, join):
    """Returns the pairs of the join: (a, b, dist)."""
    return pairs_in(postgres.copy_out(server, settings, f"SELECT id_a, id_b, dist FROM {join}"))


def pairs_of(server, settings, join, ids):
    """Returns the pairs of the join that contain one of these ids: (a, b, dist)."""
    array = "'{" + ",".join(map(str, ids)) + "}'"
    query = f"SELECT id_a, id_b, dist FROM {join} WHERE id_a = ANY ({array}) OR id_b = ANY ({array})"
    # The planner overestimates the number of these pairs and would avoid a parallel plan.
    return pairs_in(postgres.copy_out(server, f"{settings} SET parallel_tuple_cost = 0;", query))


def digest(server, settings, join, n):
    """Returns the number of pairs and a hash of all pairs and distances, which does not depend on their order."""
    return server.psql(f"""{settings} SELECT count(*),
        bit_xor(hashfloat8extended(dist, hashint8extended(id_a * {n} + id_b, 0))) FROM {join}""")


def default_workers():
    return min(12, os.cpu_count())
