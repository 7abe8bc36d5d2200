"""What people use today for the same join, each with the same interface.

join(rows, eps, limit_seconds=..., ...) -> Answer for float32 rows (n, d); see answer.py.
"""
