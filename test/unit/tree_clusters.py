#!/usr/bin/env python3
"""Writes tree_clusters.h: clusters that scikit-learn's HDBSCAN finds, and hdbscan's outlier scores.

min_samples is 1, so that all weights differ.  With larger values many weights are equal, and the
result depends on their order, which differs between implementations.

    pip install scikit-learn hdbscan "numpy<2.3"
    test/unit/tree_clusters.py > test/unit/tree_clusters.h
"""
import itertools

import numpy
from hdbscan._hdbscan_tree import condense_tree, outlier_scores
from sklearn.cluster import HDBSCAN

N = 80


def spanning_tree(rows):
    """Returns the edges of the minimum spanning tree, by Kruskal's algorithm."""
    weight = numpy.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))
    tree_of = list(range(N))
    for w, a, b in sorted((weight[a, b], a, b) for a in range(N) for b in range(a + 1, N)):
        if tree_of[a] != tree_of[b]:
            old = tree_of[b]
            tree_of = [tree_of[a] if t == old else t for t in tree_of]
            yield a, b, float(w)


def linkage(edges):
    """Returns the single-linkage tree in the format of SciPy."""
    top = {x: (x, 1) for x in range(N)}
    merges = []
    for i, (a, b, w) in enumerate(edges):
        (left, left_size), (right, right_size) = top[a], top[b]
        union = (N + i, left_size + right_size)
        merges.append((left, right, w, union[1]))
        top = {x: union if t in (top[a], top[b]) else t for x, t in top.items()}
    return numpy.array(merges, float)


def by_smallest_row(labels):
    numbers = {-1: -1}
    return [numbers.setdefault(label, len(numbers) - 1) for label in labels.tolist()]


def c_list(values):
    return ", ".join("%.14g" % value for value in values)


rng = numpy.random.default_rng(2)
centers = rng.normal(size=(6, 3)) * 4
rows = centers[rng.integers(0, 6, N)] + rng.normal(size=(N, 3)) * rng.uniform(0.2, 1.5, (N, 1))
edges = list(spanning_tree(rows))

print("/* Expected clusters, written by tree_clusters.py. */")
print("#define CLUSTERED_ROWS %d" % N)
print("static const TreeEdge clustered_edges[] = {")
print(",\n".join("\t{%d, %d, %.17g}" % edge for edge in edges))
print("};")
print("static const double expected_scores[][CLUSTERED_ROWS] = {")
sizes = (3, 8)
print(",\n".join("\t{%s}" % c_list(outlier_scores(condense_tree(linkage(edges), size)))
                 for size in sizes))
print("};")
print("static const struct\n{\n\tClusterParameters parameters;\n\tint\t\t\tscores;")
print("\tint32_t\t\tclusters[CLUSTERED_ROWS];\n\tdouble\t\tprobabilities[CLUSTERED_ROWS];")
print("} expected_clusters[] = {")
for size, (leaf, epsilon, single, largest) in itertools.product(sizes, (
        (False, 0, False, 0), (True, 0, False, 0), (False, 2.5, False, 0), (True, 2.5, True, 0),
        (False, 0, True, 0), (False, 9, True, 0), (False, 0, False, 15))):
    found = HDBSCAN(
        min_cluster_size=size, min_samples=1, max_cluster_size=largest or None,
        cluster_selection_method="leaf" if leaf else "eom", cluster_selection_epsilon=float(epsilon),
        allow_single_cluster=single, algorithm="brute", copy=True).fit(rows)
    print("\t{{%d, %d, %s, %g, %s}, %d,\n\t{%s},\n\t{%s}}," % (
        size, largest, str(leaf).lower(), epsilon, str(single).lower(), sizes.index(size),
        c_list(by_smallest_row(found.labels_)), c_list(found.probabilities_)))
print("};")
