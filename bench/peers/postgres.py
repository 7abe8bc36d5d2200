"""Fill tables with vectors and read results in binary form, with psql and a server of bench/server.py."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import record
from server import set_storage

from . import binary_copy
from .answer import TimeLimit

STREAM_BYTES = 32 << 20         # minimum number of bytes for which another session is opened
MOST_STREAMS = 32


def copy_in(server, table, pieces):
    """Copies data into a table; pieces is an iterable of buffers without header and trailer."""
    command = ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-c", f"COPY {table} FROM STDIN (FORMAT binary)"]
    psql = subprocess.Popen(command, stdin=subprocess.PIPE, env=server.env)
    psql.stdin.write(binary_copy.HEADER)
    for piece in pieces:
        psql.stdin.write(piece)
    psql.stdin.write(binary_copy.TRAILER)
    psql.stdin.close()
    if psql.wait() != 0:
        raise RuntimeError(f"COPY into {table} failed")


def copy_out(server, settings, query, limit_seconds=None):
    """Returns the bytes of COPY (query) TO STDOUT (FORMAT binary), run in a new session with the settings.

    Raises TimeLimit if the query takes longer than limit_seconds.
    """
    limit = f"SET statement_timeout = {int(1000 * limit_seconds)};" if limit_seconds else ""
    script = f"{limit}\n{settings}\nCOPY ({query}) TO STDOUT (FORMAT binary);\n"
    result = subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1"], input=script.encode(), capture_output=True,
                            env=server.env)
    if b"statement timeout" in result.stderr:
        raise TimeLimit(f"the query was canceled after {limit_seconds:.0f} s")
    if result.returncode != 0:
        raise RuntimeError(result.stderr.decode())
    return result.stdout


def create(server, table, kind="real[]", storage=record.STORAGE):
    """Creates an empty table (id bigint, v kind) with this storage of v; "" is that of CREATE TABLE."""
    # An unlogged table is filled faster and read at the same speed.
    server.psql(f"""DROP TABLE IF EXISTS {table};
        CREATE UNLOGGED TABLE {table} (id bigint, v {kind});
        {set_storage(table, storage)}""")
    if kind == "real[]":
        # ANALYZE needs seconds for statistics of the array elements, which are of no use here.
        server.psql(f"ALTER TABLE {table} ALTER COLUMN v SET STATISTICS 0")


def fill(server, table, rows, kind="real[]", streams=None, storage=record.STORAGE):
    """Creates a table (id bigint primary key, v kind) and fills it with rows (n, d) and ids from 0.

    By default, several sessions copy a large number of rows.
    """
    n, d = rows.shape
    create(server, table, kind, storage)
    streams = streams or max(1, min(MOST_STREAMS, os.cpu_count(), n * (8 * d + 40) // STREAM_BYTES))
    share = -(-n // streams)

    def stream(number):
        first = number * share
        copy_in(server, table, binary_copy.pieces_out(first, rows[first:first + share], kind))

    # Threads suffice: psql and the server do most of the work, and numpy releases the interpreter lock.
    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(stream, range(streams)))
    server.psql(f"""SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 8;
        ALTER TABLE {table} ADD PRIMARY KEY (id); VACUUM ANALYZE {table}; SELECT count(*) FROM {table};""")
