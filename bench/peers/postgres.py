"""Tables of vectors and binary results of a server (bench/server.py), by psql."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from . import binary_copy
from .answer import TimeLimit

STREAM_BYTES = 32 << 20         # fewer are not worth a session of their own
MOST_STREAMS = 32
LARGEST_PLAIN = 8000            # bytes of a vector that fits a page with its row


def copy_in(server, table, pieces):
    """COPY table FROM STDIN of pieces: an iterable of buffers, header and trailer excluded."""
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
    """Bytes of COPY (query) TO STDOUT (FORMAT binary) after settings, in a session of its own."""
    limit = f"SET statement_timeout = {int(1000 * limit_seconds)};" if limit_seconds else ""
    script = f"{limit}\n{settings}\nCOPY ({query}) TO STDOUT (FORMAT binary);\n"
    result = subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1"], input=script.encode(), capture_output=True,
                            env=server.env)
    if b"statement timeout" in result.stderr:
        raise TimeLimit(f"stopped after {limit_seconds:.0f} s")
    if result.returncode != 0:
        raise RuntimeError(result.stderr.decode())
    return result.stdout


def storage(d, kind):
    """PLAIN where a row of d dimensions fits a page: such rows are read fastest."""
    size = 4 * d + (24 if kind == "real[]" else 8)
    return "PLAIN" if size <= LARGEST_PLAIN else "EXTERNAL"


def create(server, table, d, kind="real[]"):
    """An empty table (id bigint, v kind)."""
    # a large table is not written to the log; its readers do not notice
    server.psql(f"""DROP TABLE IF EXISTS {table};
        CREATE UNLOGGED TABLE {table} (id bigint, v {kind});
        ALTER TABLE {table} ALTER COLUMN v SET STORAGE {storage(d, kind)}, SET (toast_tuple_target = 8160);""")
    if kind == "real[]":
        # ANALYZE takes seconds to count the elements, and its sample knows none of a large table's near pairs
        server.psql(f"ALTER TABLE {table} ALTER COLUMN v SET STATISTICS 0")


def fill(server, table, rows, kind="real[]", streams=None):
    """Makes table (id bigint primary key, v kind) of rows (n, d), ids from 0, by several sessions."""
    n, d = rows.shape
    create(server, table, d, kind)
    streams = streams or max(1, min(MOST_STREAMS, os.cpu_count(), n * (8 * d + 40) // STREAM_BYTES))
    share = -(-n // streams)

    def stream(number):
        first = number * share
        copy_in(server, table, binary_copy.pieces_out(first, rows[first:first + share], kind))

    # threads are enough: psql and the server do most of the work, and numpy lets others run
    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(stream, range(streams)))
    server.psql(f"""SET maintenance_work_mem = '1GB'; SET max_parallel_maintenance_workers = 8;
        ALTER TABLE {table} ADD PRIMARY KEY (id); VACUUM ANALYZE {table}; SELECT count(*) FROM {table};""")
