"""The eps at which a row has S neighbours on average: the server's fasted_epsilon."""
import numpy

SEED = 1                        # so that a run can be repeated


def by_server(server, table, selectivity):
    line = server.psql(f"SELECT eps, eps_low, eps_high FROM fasted_epsilon('{table}', 'v', {selectivity}, seed => {SEED})")
    eps, low, high = (float(value) for value in line.split("|"))
    return {"eps": eps, "eps_low": low, "eps_high": high, "eps_source": "fasted_epsilon", "seed": SEED}


def between(rows, eps):
    """Of rows of integers, whose squared distances are integers, an eps between two of these: a pair
    at eps itself would tell nothing but how a peer rounds eps.  Of other rows, eps."""
    some = rows[:1000]
    return float(numpy.sqrt(round(eps ** 2) + 0.5)) if (some == numpy.round(some)).all() else eps


def choose(server, table, rows, selectivities):
    """{S: {eps, eps_source, ...}}; table has the rows (n, d)."""
    found = {selectivity: by_server(server, table, selectivity) for selectivity in sorted(selectivities)}
    return {selectivity: {**one, "eps": between(rows, one["eps"])} for selectivity, one in found.items()}
