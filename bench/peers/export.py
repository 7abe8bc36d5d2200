"""Export the table from PostgreSQL, join it in Python, and import the pairs into a table.

The table and the pairs are transferred by one binary COPY each.  numpy converts the data.
The result is the unlogged table "exported_pairs" (id_a, id_b, dist).
"""
from . import postgres
from .answer import Clock
from .binary_copy import pairs_out, rows_in

RESULT = "exported_pairs"


def join(rows, eps, limit_seconds=float("inf"), server=None, table="items", inner=None):
    """Joins the vectors of a table (id, v real[]); rows (n, d) is used only for its number of dimensions.

    inner(rows, eps, limit_seconds) -> Answer joins the exported rows.
    """
    d = rows.shape[1]
    server.psql(f"DROP TABLE IF EXISTS {RESULT}")
    clock = Clock(limit_seconds)
    data = postgres.copy_out(server, "", f"SELECT id, v FROM {table}", limit_seconds if limit_seconds < 1e9 else None)
    clock.lap("copy out")
    ids, values = rows_in(data, d)
    del data
    clock.lap("parse")

    found = inner(values, eps, limit_seconds=limit_seconds - clock.seconds())
    clock.lap("join")
    a, b = ids[found.a], ids[found.b]
    # COPY does not guarantee the order of the rows
    a, b = (a, b) if (a < b).all() else (a.clip(max=b), b.clip(min=a))
    data = pairs_out(a, b, found.dist)
    clock.lap("form")
    server.psql(f"CREATE UNLOGGED TABLE {RESULT} (id_a bigint, id_b bigint, dist double precision)")
    postgres.copy_in(server, RESULT, [data])
    clock.lap("copy in")
    clock.parts.update({f"join: {name}": seconds for name, seconds in found.parts.items()})
    return clock.answer(a, b, found.dist, **found.about)
