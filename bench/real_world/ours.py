"""The join inside PostgreSQL, from the SQL statement to the last row.

Outputs

  count     SELECT count(*), which makes no rows
  rows      all rows, streamed to the client in binary form and thrown away there
  table     CREATE UNLOGGED TABLE AS: the pairs stored in the database

Calls: "first" of a new session, which wakes the GPU, and "warm", later in the session.
"""
import json
import os

from peers import postgres
from peers.answer import Clock
from peers.binary_copy import pairs_in
from plan import again
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
    "fasted FP16-32 of the paper": ("SET fasted.engine = cuda; SET fasted.filter = fp16; SET fasted.refine = off;",
                                    ("count", "rows")),
    "fasted cpu": ("SET fasted.engine = cpu;", ("count", "rows", "table")),
}

# the session does these one after the other
SESSION = {"Read Time": "read", "Wait Time": "wait", "Output Time": "output"}
# the engine does these meanwhile; on a CPU they are summed over its threads
ENGINE = {"Prepare Time": "prepare", "Filter Time": "filter", "Refine Time": "recheck", "Device Time": "device"}
FACTS = ("Distance Filter", "Kernel", "Candidates", "Panels", "Threads", "Host Memory", "Device Memory")


def session_settings(workers, memory_gib):
    return f"""SET max_parallel_workers_per_gather = {workers}; SET fasted.memory_limit = '{memory_gib}GB';
        SET jit = off; SET client_min_messages = warning;"""


def join_of(table, eps):
    return JOIN.format(table=table, eps=float(eps))


def explain(server, settings, query, repeats):
    """What EXPLAIN (ANALYZE) says of a warm call, in seconds: of so many of a session after its first, the
    one with the median total; of the first, where repeats is 0.

    session_seconds: read, wait and output follow one another; what is left of the total is
    starting, aggregates and the executor.  read includes converting rows and handing
    them to the engine, whose copies to the GPU run meanwhile.  engine_seconds overlap
    these: on a GPU, device is from the first kernel of the filter to the last of the
    recheck, filter and recheck are sums over kernels, and prepare is quantising; on a
    CPU, they are sums over threads.
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
    """({call: [seconds, ...]}, answer) of first and warm calls, as often as limit_seconds allow."""
    query = QUERIES[output].format(join=join)
    if output == "table":
        settings += "\nDROP TABLE IF EXISTS fasted_pairs;"
        query += ";\nDROP TABLE fasted_pairs"
    clock = Clock()
    times = {"first": [], "warm": []}
    answer = None
    while again(len(times["first"]), repeats, clock.seconds(), limit_seconds):
        answer, seconds = server.timed(settings, query, 2)
        # every other statement drops the table again
        seconds = seconds[::2] if output == "table" else seconds
        times["first"].append(seconds[0])
        times["warm"] += seconds[1:]
    return times, int(answer) if output == "count" else None


def pairs(server, settings, join):
    """(a, b, dist) of the join."""
    return pairs_in(postgres.copy_out(server, settings, f"SELECT id_a, id_b, dist FROM {join}"))


def pairs_of(server, settings, join, ids):
    """(a, b, dist) of the join's pairs that have one of these ids in them."""
    some = "'{" + ",".join(map(str, ids)) + "}'"
    query = f"SELECT id_a, id_b, dist FROM {join} WHERE id_a = ANY ({some}) OR id_b = ANY ({some})"
    # the planner takes nearly all pairs for such, and would not send them through other processes
    return pairs_in(postgres.copy_out(server, f"{settings} SET parallel_tuple_cost = 0;", query))


def digest(server, settings, join, n):
    """A number for all pairs and the bits of their distances, whatever their order."""
    return server.psql(f"""{settings} SELECT count(*),
        bit_xor(hashfloat8extended(dist, hashint8extended(id_a * {n} + id_b, 0))) FROM {join}""")


def default_workers():
    return min(12, os.cpu_count())
