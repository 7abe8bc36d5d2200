"""Measurements of bench/real_world/run.py: chosen, and compared with each other."""
import statistics

OURS = "fasted cuda"
GEMM = "cuBLAS GEMM alone"
CHECK = "check in FP64"
LARGE = 1000000                 # rows of a table that the summary names


def measured(results):
    """All measurements of the machine: those of the paper's sizes are of a run of their own, and count where
    both runs had a shape."""
    small, large = ((results[name] or {"measurements": []})["measurements"] for name in ("real_world", "real_world_large"))
    again = shapes(large)
    return [m for m in small if (m["data"], m.get("rows")) not in again] + large


def timed(measurements, **wanted):
    """Those with times and these values."""
    return [m for m in measurements if "seconds" in m and all(m.get(key) == value for key, value in wanted.items())]


def one(measurements, **wanted):
    found = timed(measurements, **wanted)
    return found[0] if found else None


def shapes(measurements):
    """(data, rows): data in the order of the file, most rows first."""
    found = {(m["data"], m["rows"]) for m in timed(measurements)}
    order = list(dict.fromkeys(m["data"] for m in timed(measurements)))
    return sorted(found, key=lambda shape: (order.index(shape[0]), -shape[1]))


def largest(measurements):
    """Those of each set's most rows, of the paper's sizes all, by set, rows and S."""
    here = shapes(measurements)
    most = {data: max(rows for other, rows in here if other == data) for data, _ in here}
    places = [shape for shape in here if shape[1] == most[shape[0]] or shape[1] >= LARGE]
    found = [m for m in timed(measurements) if (m["data"], m["rows"]) in places and "selectivity" in m]
    return sorted(found, key=lambda m: (places.index((m["data"], m["rows"])), m["selectivity"]))


def selectivities(measurements):
    return sorted({m["selectivity"] for m in timed(measurements) if "selectivity" in m})


def usual(m):
    """The runs that count: the warm calls, or the first where there was only one."""
    return m["seconds"].get("warm") or m["seconds"]["first"]


def peers(measurements, data, rows):
    """(name, measurement) of each other method at this shape, whatever S."""
    names = dict.fromkeys(m["method"] for m in timed(measurements, data=data, rows=rows) if m["method"] not in (GEMM, CHECK))
    for name in names:
        for selectivity in sorted({m["selectivity"] for m in timed(measurements, data=data, rows=rows, method=name)}):
            found = one(measurements, data=data, rows=rows, method=name, output="rows", selectivity=selectivity)
            if found:
                yield name, found


def beside(measurements, m, ours=OURS):
    """Our join inside PostgreSQL that streams the same rows of the same data."""
    return one(measurements, data=m["data"], rows=m["rows"], selectivity=m["selectivity"], method=ours, output="rows")


def ratio(measurements, m, ours=OURS):
    found = beside(measurements, m, ours)
    return statistics.median(usual(m)) / statistics.median(usual(found)) if found else None
