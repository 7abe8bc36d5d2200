"""Remove near-duplicates by cosine distance with SemHash, which searches with USearch's HNSW index; approximate."""
from semhash import SemHash
from semhash.version import __version__


def keep(rows, eps):
    """Returns (row numbers that SemHash keeps, version); rows (n, d) are float32."""
    found = SemHash.from_embeddings(rows, list(map(str, range(len(rows)))), model=None)
    return list(map(int, found.self_deduplicate(threshold=1 - eps).selected)), __version__
