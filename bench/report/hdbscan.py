"""HDBSCAN and minimum spanning trees, beside other programs."""
import statistics

from page import digits, hardware, machines_of, measured_at, stored, table

NAMES = {"fasted_knn_join": "`fasted_knn_join`, k = {k}", "fasted_spanning_tree": "`fasted_spanning_tree`", "fasted_hdbscan": "`fasted_hdbscan`",
         "scikit-learn": "scikit-learn, brute force", "hdbscan": "hdbscan", "fast-hdbscan": "fast-hdbscan"}


def cases(measurements):
    """Returns {(data, rows, dimensions): {method: measurement}}."""
    found = {}
    for m in measurements:
        if "seconds" in m:
            found.setdefault((m["data"], m["rows"], m["dimensions"]), {})[m["method"]] = m
    return found


def seconds(m):
    return statistics.median(m["seconds"]["warm"])


def cell(methods, name):
    """Returns the seconds of a method, its ratio to fasted_knn_join, and the rows that differ."""
    if name not in methods:
        return ""
    m = methods[name]
    rows = m.get("rows_that_differ")
    differ = f", {rows} row{' differs' if rows == 1 else 's differ'}" if rows else ""
    return f"{digits(seconds(m))} ({digits(seconds(m) / seconds(methods['fasted_knn_join']))}{differ})"


def section(results):
    text = []
    for machine in machines_of(results, "hdbscan"):
        found = machine["hdbscan"]
        here = cases(found["measurements"])
        names = dict.fromkeys(name for methods in here.values() for name in methods)
        rows = [[NAMES[name].format(**found["settings"]), *(cell(methods, name) for methods in here.values())] for name in names]
        text += [f"{hardware(found['environment'])}, `min_samples` and `min_cluster_size` {found['settings']['min_samples']} and "
                 f"{found['settings']['min_cluster_size']}. {measured_at(found)}{stored(found['environment'])}", "",
                 table(["method", *(f"{data}, {n} x {d}" for data, n, d in here)], rows), ""]
    if not text:
        return None
    return "\n".join([
        "## HDBSCAN", "",
        "Seconds of [`fasted_hdbscan`](../doc/functions.md#fasted_hdbscan), by Euclidean distance. The ratio to `fasted_knn_join` of the same "
        "rows is in brackets. The other programs start with the rows in memory, and use as many threads where they can. Where they put rows "
        "into other clusters, or declare them noise, the number of these rows is given. Exact trees differ where weights are equal. Above "
        "30 dimensions, fast-hdbscan's tree is approximate.", "", *text])
