"""The exact answer against numpy: all pairs of some rows, found in FP64."""
import numpy

from peers import compare, reference

TIES = 1e-9                     # relative; nearer to eps than this, FP64 sums in another order may differ
SEED = 5


class Check:
    """Rows drawn with a seed, and their pairs up to the largest eps that will be asked for."""

    def __init__(self, rows, count, most_eps):
        self.n = len(rows)
        self.chosen = numpy.sort(numpy.random.default_rng(SEED).choice(self.n, min(self.n, count), replace=False))
        self.truth = reference.of_queries(rows, self.chosen, most_eps * (1 + TIES))

    def pairs_of_chosen(self, a, b, dist):
        """Those of the pairs that have a chosen row in them."""
        is_chosen = numpy.zeros(self.n, dtype=bool)
        is_chosen[self.chosen] = True
        here = is_chosen[a] | is_chosen[b]
        return a[here], b[here], dist[here]

    def within(self, eps):
        return tuple(column[self.truth[2] <= eps] for column in self.truth)

    def compare(self, found, eps):
        """What is to be recorded of the pairs (a, b, dist) that were found of the chosen rows within eps."""
        # a pair at eps itself may fall on either side
        missed = compare.compare(self.within(eps * (1 - TIES)), found, self.n)
        spurious = compare.compare(self.within(eps * (1 + TIES)), found, self.n)
        return {"checked_rows": len(self.chosen), "checked_pairs": len(found[0]), "missed": missed["missed"],
                "spurious": spurious["spurious"], "errors": spurious["errors"]}
