"""Predict the time of each method, and choose the number of rows such that it stays below a limit.

A method that may be slow first runs a pilot with a few thousand rows.  Its time is assumed to
grow with a power of the number of rows.  If all rows would take longer than the limit, the
largest suitable round number of rows is used.

For PyTorch on a GPU, a pilot would measure only fixed costs.  Its time is predicted from the
seconds per pair of rows, per byte of COPY and per pair of the result.  These constants, and
the cost of a pair that the join inside PostgreSQL returns, were measured with an NVIDIA H200
and rounded up.
"""
ROUND = [base * 10 ** power for power in range(3, 8) for base in (1, 2, 5)]

# time is proportional to rows ** GROWTH; for an HNSW index this approximates n log n
GROWTH = {"pgvector HNSW": 1.2}
USUAL_GROWTH = 2.0


def predict(method, rows, pilot_rows, pilot_seconds):
    """Predicts the seconds for a number of rows from those of the pilot."""
    return pilot_seconds * (rows / pilot_rows) ** GROWTH.get(method, USUAL_GROWTH)


# per pair of rows: constant part, and part per dimension
GPU_PAIR_SECONDS = {"FP16": (13e-12, 3e-15), "FP16-32": (13e-12, 3e-15), "FP32": (18e-12, 43e-15)}
COPY_BYTE_SECONDS = 8e-9
EXPORTED_PAIR_SECONDS = 0.5e-6
# per multiplication or addition, by cuBLAS in FP16
GEMM_SECONDS = 1 / 350e12


def predict_gpu(method, rows, dimensions, selectivity):
    """Predicts the seconds of a PyTorch method, including export and import if its name starts with "export"."""
    each, each_dimension = GPU_PAIR_SECONDS[method.split()[-1]]
    join = 0.1 + (each + each_dimension * dimensions) * rows ** 2 / 2
    if not method.startswith("export"):
        return join
    return join + COPY_BYTE_SECONDS * rows * (36 + 8 * dimensions) + EXPORTED_PAIR_SECONDS * selectivity * rows / 2


def predict_gemm(rows, dimensions):
    """Predicts the seconds of the matrix product of all rows with all rows."""
    return GEMM_SECONDS * 2 * rows ** 2 * dimensions


# per pair, in addition to the time of counting; "sample": only the pairs of a sample of rows leave the server
OUTPUT_PAIR_SECONDS = {"count": 0, "rows": 0.3e-6, "table": 0.4e-6, "sample": 0.05e-6}


def predict_output(output, pairs, count_seconds=0):
    """Predicts the seconds of the join inside PostgreSQL with this output; count_seconds is the time of counting."""
    return count_seconds + OUTPUT_PAIR_SECONDS[output] * pairs


def may_repeat(done, repeats, seconds, limit_seconds):
    """Returns whether to run another repetition.

    The first repetition always runs.  Another one runs if fewer than "repeats" are done and if
    all of them are predicted to take at most limit_seconds.  "done" repetitions took "seconds".
    """
    return done == 0 or (done < repeats and seconds * (done + 1) / done <= limit_seconds)


def largest_count(rows, seconds_at, limit_seconds):
    """Returns the largest number of rows, all or a round number, for which seconds_at(number) is within the limit.

    Returns None if no number is small enough.
    """
    for count in [rows, *sorted((count for count in ROUND if count < rows), reverse=True)]:
        if seconds_at(count) <= limit_seconds:
            return count
    return None


def rows_within(method, rows, pilot_rows, pilot_seconds, limit_seconds):
    """Returns the number of rows for a method with a pilot, or None if no number is within the limit."""
    return largest_count(rows, lambda count: predict(method, count, pilot_rows, pilot_seconds), limit_seconds)


def select_methods(methods, only):
    """Returns the methods that --only selects; all methods if only is None.

    A word that is the name of a method selects this method.  Any other word selects all
    methods whose name contains it.
    """
    names = {method.lower() for method in methods}
    words = [word.lower() for word in only or [""]]
    return [method for method in methods
            if any(word == method.lower() if word in names else word in method.lower() for word in words)]
