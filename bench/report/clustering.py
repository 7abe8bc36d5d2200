"""Clusters, counts of neighbours and representatives, beside count(*) over the same join."""
import statistics

from page import digits, hardware, machines_of, measured_at, stored, table

TWO_GPUS = "two-nvidia-h200"     # has a page of its own
NAMES = {"count": "`SELECT count(*)` over the join", "neighbors": "`fasted_neighbors`",
         "components": "`fasted_cluster`, connected components", "dbscan": "`fasted_cluster`, DBSCAN",
         "keep_one": "`fasted_keep_one`", "neighbors window": "`fasted_neighbor_count`",
         "components window": "`fasted_dbscan`, connected components", "dbscan window": "`fasted_dbscan`", "keep_one window": "`fasted_keep`",
         "USearch": "USearch, HNSW", "FAISS flat": "FAISS, flat"}


def cases(measurements):
    """Returns {(data, rows, dimensions, metric): {method: seconds}}, with the medians of the later calls."""
    found = {}
    for m in measurements:
        if "seconds" in m:
            key = m["data"], m["rows"], m["dimensions"], m["metric"]
            found.setdefault(key, {})[m["method"]] = statistics.median(m["seconds"]["warm"])
    return found


def cell(times, method):
    return f"{digits(times[method])} ({digits(times[method] / times['count'])})" if method in times else ""


def agreement(measurements):
    """Yields the answers of other programs, and those of the statements with which they are compared."""
    def case(m):
        return m["data"], m["rows"], m["metric"]
    answers = {(*case(m), m["method"]): m["answer"] for m in measurements if "answer" in m}
    for m in measurements:
        if "beside" in m and "answer" in m:
            pairs = f"; {m['missed']} missed, {m['spurious']} spurious" if "missed" in m else ""
            yield f"{m['method']} {m['answer']} ({answers[(*case(m), m['beside'])]}{pairs})"


def section(results):
    text, different = [], 0
    for machine in machines_of(results, "groups"):
        found = machine["groups"]
        if machine.machine == TWO_GPUS:
            continue
        here = cases(found["measurements"])
        different += sum(m.get("rows_that_differ", 0) for m in found["measurements"])
        methods = dict.fromkeys(method for times in here.values() for method in times)
        head = [f"{data}, {n} x {d}{'' if metric == 'l2' else ', ' + metric}" for data, n, d, metric in here]
        text += [f"{hardware(found['environment'])}. {measured_at(found)}{stored(found['environment'])}", "",
                 table(["statement", *head], [[NAMES.get(method, method), *(cell(times, method) for times in here.values())] for method in methods]), ""]
        if answers := list(agreement(found["measurements"])):
            text += [f"Rows that SemHash keeps, and pairs that others find, with those of fasted in brackets: {', '.join(answers)}.", ""]
    if not text:
        return None
    return "\n".join([
        "## Clustering", "",
        "Seconds of each statement, in later calls of one session. The ratio to `count(*)` over the same join is in brackets. DBSCAN has "
        "`min_samples` = 10. scikit-learn's DBSCAN receives the vectors by COPY, and scipy's connected components receive the pairs by COPY. "
        + ("Both give the same clusters. " if not different else f"**They put {different} rows into other clusters.** ")
        + f"[Two GPUs](results/{TWO_GPUS}/groups.md) are measured as well.", "", *text])
