"""Clusters, neighbours and the row to keep, beside count(*) over the same join."""
import statistics

from page import digits, machines_of, measured_at, seconds, table

WHAT = {"count": "`SELECT count(*)` over the join", "neighbors": "`fasted_neighbors`",
        "components": "`fasted_cluster`, connected components", "dbscan": "`fasted_cluster`, DBSCAN",
        "keep_one": "`fasted_keep_one`", "neighbors window": "`fasted_neighbor_count` of a window",
        "components window": "`fasted_components` of a window", "dbscan window": "`fasted_dbscan` of a window",
        "keep_one window": "`fasted_keep` of a window, in order of id"}


def cases(measurements):
    """[[measurement, ...], ...]: those of the same rows together."""
    found = {}
    for m in measurements:
        found.setdefault((m["data"], m["rows"], m["metric"]), []).append(m)
    return list(found.values())


def line(m, count):
    if "reason" in m:
        return [m["method"], m["reason"], "", "", ""]
    runs = m["seconds"]["warm"]
    group = m["parts"].get("seconds", {}).get("group")
    return [WHAT.get(m["method"], m["method"]), seconds(runs), digits(statistics.median(runs) / count),
            digits(1e9 * group / m["pairs"]) if group is not None and m.get("pairs") else "", m.get("rows_that_differ", "")]


def case_text(case):
    first = case[0]
    count = statistics.median(first["seconds"]["warm"])
    engine = "" if first["metric"] == "l2" else f", {first['metric']} distance"
    return [f"{first['data']}, {first['rows']} x {first['dimensions']}{engine}, S = {first['selectivity']:g}, eps = {digits(first['eps'], 5)}: "
            f"{first['pairs']} pairs; DBSCAN with min_points {first['min_points']}.", "",
            table(["what", "s", "times count", "grouping, ns a pair", "rows that differ"], [line(m, count) for m in case]), ""]


def section(results):
    text = []
    for found in machines_of(results, "groups"):
        env = found["environment"]
        name = env.get("gpu") or f"{env['processor']}, {env['processors']} processors"
        text += [f"### {name}, engine {found['settings']['engine']}", "", measured_at(found), ""]
        for case in cases(found["measurements"]):
            text += case_text(case)
    if not text:
        return None
    return "\n".join(["## Groups", "",
                      "What people want of the pairs, each from its statement to its last row, in one session in turn. \"Grouping\" is what is "
                      "made of each pair, on one processor while the engine computes. Beside it: the table's vectors by COPY into "
                      "scikit-learn's DBSCAN (brute force, in FP64), and the join's pairs by COPY into scipy's connected_components; "
                      "both with the way out of the database, without the way back; the last column counts rows that they put elsewhere.",
                      "", *text])
