"""An answer beside the exact one, pair by pair.

Pairs are unordered: (a, b) and (b, a) are the same, and each is counted once.  Both
answers are sorted by one key a n + b, so that 30 million pairs take seconds.
"""
import numpy


def sorted_pairs(a, b, n, values=None):
    """(keys, values): keys (pairs,) int64, a n + b with a < b, ascending; values in the same order."""
    a, b = (numpy.asarray(x, dtype=numpy.int64) for x in (a, b))
    keys = numpy.minimum(a, b) * n + numpy.maximum(a, b)
    if values is None:
        keys.sort()
        return keys, None
    order = numpy.argsort(keys)
    return keys[order], numpy.asarray(values)[order]


def ends(keys, n):
    """(a, b) of keys."""
    return keys // n, keys % n


def places_in(others, keys):
    """(place, found): of the keys that are among others, where; and which these are.  Both ascending."""
    place = numpy.searchsorted(others, keys)
    found = place < len(others)
    found[found] = others[place[found]] == keys[found]
    return place[found], found


def without_repeats(keys, values):
    first = numpy.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], None if values is None else values[first]


def degrees(keys, n):
    """(n,) the number of neighbours of each point."""
    a, b = ends(keys, n)
    return numpy.bincount(a, minlength=n) + numpy.bincount(b, minlength=n)


def overlap(exact, other, common, n):
    """Equation 3 of the FaSTED paper: the mean over all points of |N1 and N2| / |N1 or N2|,
    1 for a point without neighbours in either; keys ascending."""
    both = degrees(common, n)
    either = degrees(exact, n) + degrees(other, n) - both
    return float(numpy.where(either == 0, 1.0, both / numpy.maximum(either, 1)).mean())


def edges(most, bins):
    """Of a histogram of errors up to most: even, as wide to the left of 0 as to the right."""
    return numpy.linspace(-(most or 1.0), most or 1.0, bins + 1)


def error_statistics(errors, bins=None):
    """Mean, standard deviation (of all pairs: no sample) and largest of errors, which are other minus
    exact; with bins, their histogram between edges(most, bins)."""
    if len(errors) == 0:
        return None
    most = float(numpy.abs(errors).max())
    histogram = {"histogram": numpy.histogram(errors, edges(most, bins))[0].tolist()} if bins else {}
    return {"pairs": len(errors), "mean": float(errors.mean()), "deviation": float(errors.std()), "most": most, **histogram}


def each_once(pairs, n):
    """(keys, dist) of (a, b, dist or None), ascending and without repeats, as compare_with() wants the exact answer."""
    return without_repeats(*sorted_pairs(*pairs[:2], n, pairs[2]))


def compare_with(exact, other, n, bins=None):
    """compare() of an exact answer that each_once() has sorted, for many others."""
    exact_keys, exact_dist = exact
    keys, dist = sorted_pairs(*other[:2], n, other[2])
    total = len(keys)
    keys, dist = without_repeats(keys, dist)
    place, right = places_in(exact_keys, keys)
    errors = None
    if exact_dist is not None and dist is not None:
        errors = error_statistics(dist[right].astype(numpy.float64) - exact_dist[place].astype(numpy.float64), bins)
    return {"pairs": total, "missed": len(exact_keys) - len(place), "spurious": len(keys) - len(place),
            "repeated": total - len(keys), "overlap": overlap(exact_keys, keys, keys[right], n), "errors": errors}


def compare(exact, other, n, bins=None):
    """{pairs, missed, spurious, repeated, overlap, errors}: other's pairs beside exact's.

    exact, other: (a, b, dist or None), numbers of n rows.  repeated: pairs that other has more
    than once, each surplus one.  errors: of the distances of pairs that both have, or None.
    """
    return compare_with(each_once(exact, n), other, n, bins)


def compare_answers(exact, other, n, bins=None):
    """compare() of two Answers (answer.py)."""
    return compare((exact.a, exact.b, exact.dist), (other.a, other.b, other.dist), n, bins)
