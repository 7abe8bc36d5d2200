"""Determine the eps at which a row has S neighbours on average, with the function fasted_epsilon."""
import numpy

SEED = 1                        # fixed, so that a run is reproducible


def by_server(server, table, selectivity):
    return float(server.psql(f"SELECT eps FROM fasted_epsilon('{table}', 'v', {selectivity}, seed => {SEED})"))


def between(rows, eps):
    """Moves eps between two possible distances if all rows consist of integers; otherwise returns eps.

    Many pairs of such rows can have exactly the distance eps, and whether a peer reports them
    depends only on how it rounds eps.
    """
    sample = rows[:1000]
    return float(numpy.sqrt(round(eps ** 2) + 0.5)) if (sample == numpy.round(sample)).all() else eps


def choose(server, table, rows, selectivities):
    """Returns {S: eps} for the rows (n, d), which the table contains."""
    return {selectivity: between(rows, by_server(server, table, selectivity)) for selectivity in sorted(selectivities)}
