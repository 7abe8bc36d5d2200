"""Join in PostgreSQL with pgvector and parallel workers.

  nested    a nested loop that compares all pairs; exact except for FP32 distances
  hnsw      an HNSW index search for the k nearest rows of each row, of which those within
            eps are returned; approximate, and incomplete for rows with more than k neighbours

The HNSW search is a function, because PostgreSQL does not use parallel workers for a
LATERAL subquery with a LIMIT.  The reported time includes building the index.
"""
from . import postgres
from .answer import Clock, TimeLimit, Unavailable
from .binary_copy import pairs_in

TABLE = "vectors"
INDEX_DIMENSIONS = 2000         # maximum number of dimensions of an HNSW index
MOST_EF_SEARCH = 1000

NESTED = f"""SELECT a.id, b.id, a.v <-> b.v FROM {TABLE} AS a JOIN {TABLE} AS b
    ON a.id < b.id AND a.v <-> b.v <= {{eps!r}}"""
HNSW = f"""SELECT a.id, b.id, b.dist FROM {TABLE} AS a CROSS JOIN LATERAL nearest(a.v, {{k}}) AS b
    WHERE b.dist <= {{eps!r}} AND a.id < b.id"""

NEAREST = f"""CREATE OR REPLACE FUNCTION nearest(q vector, k integer)
    RETURNS TABLE (id bigint, dist double precision) LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 100 AS $$
    BEGIN
        RETURN QUERY SELECT t.id, t.v <-> q FROM {TABLE} AS t ORDER BY t.v <-> q LIMIT k;
    END $$"""


def require(server):
    """Creates the extension and returns its version; raises Unavailable if it is not installed."""
    if not server.psql("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        raise Unavailable("pgvector is not installed")
    server.psql("SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS vector")
    return server.psql("SELECT extversion FROM pg_extension WHERE extname = 'vector'")


def parallel(workers):
    """Returns settings that make the planner use this number of parallel workers."""
    return f"""SET max_parallel_workers_per_gather = {workers}; SET max_parallel_maintenance_workers = {workers};
        SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET jit = off;"""


def fetch(server, clock, settings, query, name):
    """Runs a query within the clock's limit and returns its pairs; the lap of the query is called name."""
    left = clock.limit_seconds - clock.seconds()
    data = postgres.copy_out(server, settings, query, left if left < 1e9 else None)
    clock.lap(name)
    pairs = pairs_in(data)
    clock.lap("parse")
    return pairs


def make_table(server, rows, workers):
    """Fills the table, with vectors in line if they fit, because a nested loop would fetch a vector for every pair."""
    d = rows.shape[1]
    postgres.fill(server, TABLE, rows, f"vector({d})", storage="PLAIN" if d <= INDEX_DIMENSIONS else "")
    server.psql(f"ALTER TABLE {TABLE} SET (parallel_workers = {workers})")


def join_nested(rows, eps, limit_seconds=float("inf"), server=None, workers=8):
    """Joins rows (n, d) float32 with a nested loop; the table is filled before the clock starts."""
    version = require(server)
    make_table(server, rows, workers)
    clock = Clock(limit_seconds)
    pairs = fetch(server, clock, parallel(workers), NESTED.format(eps=float(eps)), "query")
    return clock.answer(*pairs, version=version, form="nested loop", workers=workers)


def build_index(server, clock, settings, build_memory_mb):
    """Builds the HNSW index within the clock's limit."""
    left = clock.limit_seconds
    limit = f"SET statement_timeout = {int(1000 * left)};" if left < 1e9 else ""
    try:
        server.psql(f"""{settings} {limit} SET maintenance_work_mem = '{build_memory_mb}MB';
            CREATE INDEX ON {TABLE} USING hnsw (v vector_l2_ops)""")
    except Exception as error:
        if "statement timeout" in str(getattr(error, "stderr", "")):
            raise TimeLimit(f"the index could not be built in {left:.0f} s") from None
        raise
    clock.lap("index")


def join_hnsw(rows, eps, limit_seconds=float("inf"), server=None, workers=8, k=129, build_memory_mb=None):
    """Joins rows (n, d) float32 with an HNSW index; the table is filled before the clock starts.

    k is the number of nearest rows per search, which includes the row itself.  A reasonable
    choice is twice the expected mean number of neighbours, plus one.
    """
    n, d = rows.shape
    version = require(server)
    if d > INDEX_DIMENSIONS:
        raise Unavailable(f"an HNSW index supports at most {INDEX_DIMENSIONS} dimensions")
    make_table(server, rows, workers)
    server.psql(NEAREST)
    settings = parallel(workers)
    memory = build_memory_mb or max(64, int(n * (4 * d + 500) * 1.3) >> 20)
    clock = Clock(limit_seconds)
    build_index(server, clock, settings, memory)
    k = min(k, MOST_EF_SEARCH)
    ef_search = max(40, k)
    # Otherwise the planner may scan and sort the whole table for each row.
    search = f"{settings} SET hnsw.ef_search = {ef_search}; SET enable_sort = off;"
    pairs = fetch(server, clock, search, HNSW.format(eps=float(eps), k=k), "query")
    return clock.answer(*pairs, version=version, form="HNSW", k=k, ef_search=ef_search, workers=workers)
