"""Selects measurements of bench/real_world/run.py, and compares them."""
import statistics

from page import in_line

OURS = "fasted cuda"
OURS_ON_CPU = "fasted cpu"
GEMM = "cuBLAS GEMM alone"
CHECK = "check in FP64"
LARGE = 1000000                 # all tables of this many rows are shown, not only the largest of a data set
S = 64                          # mean number of neighbours per row
OUT_OF_LINE = 500               # dimensions from which on CREATE TABLE stores vectors out of line
FEW_ROWS = 10000                # other methods are compared at this many rows or more
NESTED_LOOP = "pgvector nested loop"
HNSW = "pgvector HNSW"

# variants of other methods that the result files have and the page does not show
NOT_SHOWN = {"fasted FP16-32 of the paper", "PyTorch FP16", "export, PyTorch FP16-32"}


FILES = ("real_world", "over_rows", "real_world_large", "large_on_cpu")


def runs(results):
    """Returns the result files of a machine that have measurements of whole joins."""
    return [found for name in FILES if (found := results[name])]


def measured(results):
    """Returns all measurements of a machine. If several files have the same measurement, that of the last file is used.

    A measurement has "in_line" if CREATE TABLE stores such vectors out of line, but they were stored in line.
    """
    found = {}
    for run in runs(results):
        for m in run["measurements"]:
            key = tuple(m.get(name) for name in ("data", "rows", "selectivity", "method", "output"))
            found.pop(key, None)
            chosen = m.get("dimensions", 0) >= OUT_OF_LINE and in_line(run["environment"])
            found[key] = {**m, "in_line": True} if chosen else m
    return list(found.values())


def timed(measurements, **wanted):
    """Returns the measurements that have times and these values."""
    return [m for m in measurements if "seconds" in m and all(m.get(key) == value for key, value in wanted.items())]


def one(measurements, **wanted):
    found = timed(measurements, **wanted)
    return found[0] if found else None


def dimensions(m):
    """Returns the number of dimensions, and "in line" if CREATE TABLE would not store such vectors in line, but the benchmark did."""
    return f"{m['dimensions']}, in line" if m.get("in_line") else m["dimensions"]


def shapes(measurements):
    """Returns [(data, rows), ...]: data sets in the order of the file, the largest number of rows first."""
    found = {(m["data"], m["rows"]) for m in timed(measurements)}
    order = list(dict.fromkeys(m["data"] for m in timed(measurements)))
    return sorted(found, key=lambda shape: (order.index(shape[0]), -shape[1]))


def largest(measurements):
    """Returns the measurements of the largest number of rows of each data set, and of all shapes of LARGE rows or more."""
    here = shapes(measurements)
    most = {data: max(rows for other, rows in here if other == data) for data, _ in here}
    places = [shape for shape in here if shape[1] == most[shape[0]] or shape[1] >= LARGE]
    found = [m for m in timed(measurements) if (m["data"], m["rows"]) in places and "selectivity" in m]
    return sorted(found, key=lambda m: (places.index((m["data"], m["rows"])), m["selectivity"]))


def usual(m):
    """Returns the seconds of the later calls, or of the first call if there was only one."""
    return m["seconds"].get("warm") or m["seconds"]["first"]


def median(m):
    """Returns the median of the later calls in seconds."""
    return statistics.median(usual(m))


def peers(measurements, data, rows):
    """Yields (name, measurement) of each method that returned all pairs of this shape, at S."""
    for m in timed(measurements, data=data, rows=rows, output="rows", selectivity=S):
        if m["method"] not in NOT_SHOWN:
            yield m["method"], m


def ratio(measurements, m, ours=OURS):
    """Returns the time of a method divided by that of our join that sends the same pairs to the client, or None."""
    found = one(measurements, data=m["data"], rows=m["rows"], selectivity=m["selectivity"], method=ours, output="rows")
    return median(m) / median(found) if found else None


def ratios(measurements, ours=OURS):
    """Returns {method: {(data, rows): ratio}} of the other methods, at FEW_ROWS or more."""
    found = {}
    for data, rows in shapes(measurements):
        for name, m in peers(measurements, data, rows):
            times = ratio(measurements, m, ours)
            if times and rows >= FEW_ROWS and not name.startswith("fasted"):
                found.setdefault(name, {})[data, rows] = times
    return found


def values(found, *left_out):
    """Returns all ratios of ratios(), except those of some methods."""
    return [times for name, here in found.items() if name not in left_out for times in here.values()]
