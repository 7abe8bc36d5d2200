"""Peers: other programs that compute the same join, with a common interface.

join(rows, eps, limit_seconds=..., ...) -> Answer for float32 rows (n, d); see answer.py.
"""
