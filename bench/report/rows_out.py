"""The cost of a result row of a join, beside that of a row of a table."""
import statistics

from page import cpu_name, digits, machines_of, table

FILES = ("rows_out_one_core", "rows_out_cuda")
NAMES = {"join": "join on `fasted_within`", "node": "`fasted_self_join`", "table": "table with the same rows"}


def line(times, pairs, name):
    """Returns a line of the table: the seconds of the sum and of the count, and nanoseconds for each row."""
    total, count = (statistics.median(times[f"{kind} {name}"]) for kind in ("ids", "count"))
    return [NAMES[name], digits(total), digits(count), digits(1e9 * total / pairs), digits(1e9 * (total - count) / pairs)]


def section(results):
    text = []
    for machine in machines_of(results, *FILES):
        for found in filter(None, map(machine.__getitem__, FILES)):
            about = found["machine"]
            text += [f"{cpu_name(about)}, `fasted.engine` {about['engine']}{', one core' if about['one core'] else ''}, {found['pairs']} rows. "
                     f"Revision {about['revision']}, {about['date']}.", "",
                     table(["rows of", "sum, s", "`count(*)`, s", "sum, ns per row", "sum less count, ns per row"],
                           [line(found["times"], found["pairs"], name) for name in NAMES]), ""]
    if not text:
        return None
    return "\n".join([
        "## Result rows", "",
        "The sum over two columns of all result rows of a join, computing the pairs included, beside the sum over a table in shared buffers "
        "that contains the same rows. The vectors have one dimension, so that the pairs cost little. All statements run in one process, in turn.", "", *text])
