"""Which method runs at how many rows: what is predicted to take less than a limit.

A method that may be slow is tried at a few thousand rows; its time grows with the
rows to a power that is stated here.  Where all rows would take longer than the limit,
the largest of some round numbers of rows is taken.

Where PyTorch on a GPU is the method, a pilot would measure its fixed costs only: its
time is predicted from seconds for each pair of rows and for each byte of COPY, which
were measured on an NVIDIA H200 and are rounded up.
"""
ROUND = [base * 10 ** power for power in range(3, 8) for base in (1, 2, 5)]

# seconds grow as rows ** GROWTH; an HNSW index grows as n log n
GROWTH = {"pgvector HNSW": 1.2}
USUAL_GROWTH = 2.0


def predict(method, rows, pilot_rows, pilot_seconds):
    """Seconds at this number of rows."""
    return pilot_seconds * (rows / pilot_rows) ** GROWTH.get(method, USUAL_GROWTH)


# of each two rows, up to 1000 dimensions, and of each byte that COPY writes
GPU_PAIR_SECONDS = {"FP16": 15e-12, "FP16-32": 15e-12, "FP32": 60e-12}
COPY_BYTE_SECONDS = 5e-9


def predict_gpu(method, rows, dimensions):
    """Seconds of a PyTorch method, with the table's way out where it is exported."""
    join = 0.1 + GPU_PAIR_SECONDS[method.split()[-1]] * rows ** 2 / 2
    return join + (COPY_BYTE_SECONDS * rows * (36 + 8 * dimensions) if method.startswith("export") else 0)


def largest(rows, seconds_at, limit_seconds):
    """The largest number of rows, all or a round one, that seconds_at(number) predicts to be within the limit."""
    for count in [rows, *sorted((count for count in ROUND if count < rows), reverse=True)]:
        if seconds_at(count) <= limit_seconds:
            return count
    return None


def rows_within(method, rows, pilot_rows, pilot_seconds, limit_seconds):
    """The number of rows to run at, or None where none will do."""
    return largest(rows, lambda count: predict(method, count, pilot_rows, pilot_seconds), limit_seconds)


def matching(methods, only):
    """Those whose name has one of the given words in it; all without any."""
    return [method for method in methods if not only or any(word.lower() in method.lower() for word in only)]
