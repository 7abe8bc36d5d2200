"""Compare a result with the exact result, pair by pair.

Pairs are unordered: (a, b) and (b, a) are the same pair.  Both results are sorted by the
key a n + b with a < b, so that 30 million pairs take a few seconds.
"""
import numpy


def sorted_pairs(a, b, n, values=None):
    """Returns (keys, values): the ascending keys (pairs,) int64, and the values in the same order."""
    a, b = (numpy.asarray(x, dtype=numpy.int64) for x in (a, b))
    keys = numpy.minimum(a, b) * n + numpy.maximum(a, b)
    if values is None:
        keys.sort()
        return keys, None
    order = numpy.argsort(keys)
    return keys[order], numpy.asarray(values)[order]


def ends(keys, n):
    """Returns the arrays (a, b) of the keys."""
    return keys // n, keys % n


def places_in(others, keys):
    """Looks the keys up in others; both arrays are ascending.

    Returns (place, found): found is a mask of the keys that others contains, and place has
    the positions of these keys in others.
    """
    place = numpy.searchsorted(others, keys)
    found = place < len(others)
    found[found] = others[place[found]] == keys[found]
    return place[found], found


def without_repeats(keys, values):
    """Removes repeated keys and their values; keys are ascending."""
    first = numpy.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], None if values is None else values[first]


def degrees(keys, n):
    """Returns the number of neighbours of each row: (n,)."""
    a, b = ends(keys, n)
    return numpy.bincount(a, minlength=n) + numpy.bincount(b, minlength=n)


def overlap(exact, other, common, n):
    """Returns the overlap of two results with ascending keys, by Equation 3 of the FaSTED paper.

    The overlap is the mean, over all rows, of |N1 and N2| / |N1 or N2|, where N1 and N2 are the
    row's neighbours in the two results.  The quotient is 1 if a row has no neighbours in either.
    """
    both = degrees(common, n)
    either = degrees(exact, n) + degrees(other, n) - both
    return float(numpy.where(either == 0, 1.0, both / numpy.maximum(either, 1)).mean())


def error_statistics(errors):
    """Returns statistics of errors: mean, population standard deviation, and largest absolute value ("most")."""
    if len(errors) == 0:
        return None
    most = float(numpy.abs(errors).max())
    return {"pairs": len(errors), "mean": float(errors.mean()), "deviation": float(errors.std()), "most": most}


def each_once(pairs, n):
    """Converts (a, b, dist or None) to ascending, distinct keys and their distances, for compare_with()."""
    return without_repeats(*sorted_pairs(*pairs[:2], n, pairs[2]))


def compare_with(exact, other, n):
    """Does the same as compare(), for an exact result that each_once() has converted."""
    exact_keys, exact_dist = exact
    keys, dist = sorted_pairs(*other[:2], n, other[2])
    total = len(keys)
    keys, dist = without_repeats(keys, dist)
    place, right = places_in(exact_keys, keys)
    errors = None
    if exact_dist is not None and dist is not None:
        errors = error_statistics(dist[right].astype(numpy.float64) - exact_dist[place].astype(numpy.float64))
    return {"pairs": total, "missed": len(exact_keys) - len(place), "spurious": len(keys) - len(place),
            "repeated": total - len(keys), "overlap": overlap(exact_keys, keys, keys[right], n), "errors": errors}


def compare(exact, other, n):
    """Compares two results (a, b, dist or None) with row numbers below n.

    Returns {pairs, missed, spurious, repeated, overlap, errors}.  "repeated" counts the surplus
    copies of pairs in other.  "errors" has statistics of other's distance minus the exact
    distance, for the pairs that both results contain; it is None without distances.
    """
    return compare_with(each_once(exact, n), other, n)


def compare_answers(exact, other, n):
    """Does the same as compare(), for two objects of class Answer."""
    return compare((exact.a, exact.b, exact.dist), (other.a, other.b, other.dist), n)


def differing_rows(ours, theirs):
    """Returns the number of rows that two clusterings, labels (n,) with -1 for noise, put into different clusters.

    Clusters correspond one to one, beginning with the two that share most rows.  Noise corresponds to noise.
    """
    labels, shared = numpy.unique(numpy.stack([ours, theirs]), axis=1, return_counts=True)
    partner, taken = {-1: -1}, {-1}
    for a, b in labels[:, numpy.argsort(-shared, kind="stable")].T.tolist():
        if a not in partner and b not in taken:
            partner[a] = b
            taken.add(b)
    same = [partner.get(a) == b for a, b in labels.T.tolist()]
    return int(shared[~numpy.array(same, dtype=bool)].sum())
