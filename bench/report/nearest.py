"""The k nearest rows of every row, beside what else finds them."""
import statistics

from page import digits, machines_of, measured_at, seconds, table

NAMES = {"fasted_knn_join": "`fasted_knn_join`", "pgvector lateral": "pgvector, `LATERAL` without an index",
         "scikit-learn": "scikit-learn, `kneighbors` by brute force", "faiss flat": "FAISS, flat",
         "torch": "PyTorch on the GPU, FP16 products and `topk`"}


def name_of(m):
    if "ef_search" in m:
        return f"pgvector, `LATERAL` by HNSW, `ef_search` {m['ef_search']}"
    return NAMES.get(m["method"], m["method"])


def line(m, ours):
    if "reason" in m:
        return [name_of(m), m["reason"], "", "", ""]
    runs = m["seconds"]["warm"]
    return [name_of(m), seconds(runs), digits(statistics.median(runs) / ours), f"{m['recall']:.5f}",
            digits(m["index_seconds"]) if m.get("index_seconds") else ""]


def case_text(case):
    ours = statistics.median(case[0]["seconds"]["warm"])
    first = case[0]
    distance = "Euclidean" if first["metric"] == "l2" else first["metric"]
    return [f"{first['data']}, {first['rows']} x {first['dimensions']}, {distance} distance, k = {first['k']}:", "",
            table(["what", "s", "times ours", "recall", "index, s"], [line(m, ours) for m in case]), ""]


def cases(measurements):
    """[[measurement, ...], ...]: those of the same rows together, ours first."""
    found = []
    for m in measurements:
        if m["method"] == "fasted_knn_join":
            found.append([])
        found[-1].append(m)
    return found


def section(results):
    text = []
    for found in machines_of(results, "nearest"):
        env = found["environment"]
        name = env.get("gpu") or f"{env['processor']}, {env['processors']} processors"
        text += [f"### {name}", "", measured_at(found), ""]
        for case in cases(found["measurements"]):
            text += case_text(case)
    if not text:
        return None
    return "\n".join(["## The nearest of every row", "",
                      "[fasted_knn_join](functions.md#fasted_knn_join) of a table with itself, all rows of the result counted, from the "
                      "statement on, once the first call of the session is over. pgvector's rows come by COPY; scikit-learn, FAISS and PyTorch get the "
                      "table by COPY, which is in their time, and keep what they find. Recall is the share of the neighbours found that are "
                      "no farther than the farthest of the k nearest.", "", *text])
