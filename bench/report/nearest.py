"""The k nearest rows of every row, beside other programs."""
import statistics

from page import digits, hardware, machines_of, measured_at, stored, table

NAMES = {"fasted_knn_join": "`fasted_knn_join`", "pgvector lateral": "pgvector, `LATERAL` without an index",
         "scikit-learn": "scikit-learn, brute force", "faiss flat": "FAISS, flat", "torch": "PyTorch on the GPU, FP16"}


def name_of(m):
    return f"pgvector, `LATERAL` with HNSW, `ef_search` {m['ef_search']}" if "ef_search" in m else NAMES.get(m["method"], m["method"])


def section(results):
    text = []
    for machine in machines_of(results, "nearest"):
        found = machine["nearest"]
        here = [m for m in found["measurements"] if "seconds" in m]
        shapes = list(dict.fromkeys((m["data"], m["rows"], m["dimensions"]) for m in here))
        cells = {}
        for m in here:
            place = shapes.index((m["data"], m["rows"], m["dimensions"]))
            cells.setdefault(name_of(m), [""] * len(shapes))[place] = f"{digits(statistics.median(m['seconds']['warm']))} ({m['recall']:.5f})"
        text += [f"{hardware(found['environment'])}, k = {here[0]['k']}. {measured_at(found)}{stored(found['environment'])}", "",
                 table(["method", *(f"{data}, {n} x {d}" for data, n, d in shapes)], [[name, *row] for name, row in cells.items()]), ""]
        index = [m["index_seconds"] for m in here if m.get("index_seconds")]
        if index:
            text += [f"Building the HNSW indexes took {' and '.join(map(digits, index))} s more.", ""]
    if not text:
        return None
    return "\n".join([
        "## Nearest rows of every row", "",
        "Seconds of [`fasted_knn_join`](../doc/functions.md#fasted_knn_join) of a table with itself, by Euclidean distance. The recall is in brackets: the "
        "share of the rows found that are not farther than the k-th nearest row. The times of scikit-learn, FAISS and PyTorch include COPY of the "
        "table, and their result remains in the client.", "", *text])
