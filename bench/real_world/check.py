"""Check a result with numpy: compare all pairs of a sample of rows with those found in FP64."""
import numpy

from peers import compare, reference

TIES = 1e-9                     # relative tolerance at eps, because FP64 sums depend on the order of summation
SEED = 5


class Check:
    """A random sample of rows, and all of their pairs up to the largest eps that is checked."""

    def __init__(self, rows, count, most_eps):
        self.n = len(rows)
        self.chosen = numpy.sort(numpy.random.default_rng(SEED).choice(self.n, min(self.n, count), replace=False))
        self.truth = reference.of_queries(rows, self.chosen, most_eps * (1 + TIES))

    def pairs_of_chosen(self, a, b, dist):
        """Returns the pairs that contain a row of the sample."""
        is_chosen = numpy.zeros(self.n, dtype=bool)
        is_chosen[self.chosen] = True
        here = is_chosen[a] | is_chosen[b]
        return a[here], b[here], dist[here]

    def within(self, eps):
        return tuple(column[self.truth[2] <= eps] for column in self.truth)

    def compare(self, found, eps):
        """Compares the pairs (a, b, dist) of the sample within eps with the exact ones; returns what to record."""
        # a pair whose distance is eps may be reported or not
        missed = compare.compare(self.within(eps * (1 - TIES)), found, self.n)
        spurious = compare.compare(self.within(eps * (1 + TIES)), found, self.n)
        return {"checked_rows": len(self.chosen), "checked_pairs": len(found[0]), "missed": missed["missed"],
                "spurious": spurious["spurious"], "errors": spurious["errors"]}
