"""The eps at which a row has S neighbours on average: the server's fasted_epsilon."""
import numpy

SEED = 1                        # so that a run can be repeated


def by_server(server, table, selectivity):
    return float(server.psql(f"SELECT eps FROM fasted_epsilon('{table}', 'v', {selectivity}, seed => {SEED})"))


def between(rows, eps):
    """Of rows of integers, whose squared distances are integers, an eps between two of these: a pair
    at eps itself would tell nothing but how a peer rounds eps.  Of other rows, eps."""
    some = rows[:1000]
    return float(numpy.sqrt(round(eps ** 2) + 0.5)) if (some == numpy.round(some)).all() else eps


def choose(server, table, rows, selectivities):
    """{S: eps}; table has the rows (n, d)."""
    return {selectivity: between(rows, by_server(server, table, selectivity)) for selectivity in sorted(selectivities)}
