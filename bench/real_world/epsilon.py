"""The eps at which a row has S neighbours on average.

The server's fasted_epsilon(relation, column, S) where it has that function; else an
estimate from the distances of some rows to all rows (bench/datasets/eps.py).
"""
from datasets.eps import distances

QUERIES = 500


def by_server(server, table, selectivity):
    line = server.psql(f"SELECT eps, eps_low, eps_high FROM fasted_epsilon('{table}', 'v', {selectivity})")
    eps, low, high = (float(value) for value in line.split("|"))
    return {"eps": eps, "eps_low": low, "eps_high": high, "eps_source": "fasted_epsilon"}


def choose(server, table, rows, selectivities):
    """{S: {eps, eps_source, ...}}; table has the rows (n, d)."""
    if server.psql("SELECT 1 FROM pg_proc WHERE proname = 'fasted_epsilon' LIMIT 1"):
        return {selectivity: by_server(server, table, selectivity) for selectivity in selectivities}
    ordered = sorted(selectivities)
    found = distances(rows, ordered, min(QUERIES, len(rows)))
    return {selectivity: {"eps": eps, "eps_source": f"sample of {min(QUERIES, len(rows))} rows"}
            for selectivity, eps in zip(ordered, found)}
