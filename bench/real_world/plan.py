"""What runs, and at how many rows: what is predicted to take less than a limit.

A method that may be slow is tried at a few thousand rows; its time grows with the
rows to a power that is stated here.  Where all rows would take longer than the limit,
the largest of some round numbers of rows is taken.

Where PyTorch on a GPU is the method, a pilot would measure its fixed costs only: its
time is predicted from seconds for each pair of rows, for each byte of COPY and for each
pair of the answer.  These, and what a pair costs that comes out of the join inside
PostgreSQL, were measured beside an NVIDIA H200 and are rounded up.
"""
ROUND = [base * 10 ** power for power in range(3, 8) for base in (1, 2, 5)]

# seconds grow as rows ** GROWTH; an HNSW index grows as n log n
GROWTH = {"pgvector HNSW": 1.2}
USUAL_GROWTH = 2.0


def predict(method, rows, pilot_rows, pilot_seconds):
    """Seconds at this number of rows."""
    return pilot_seconds * (rows / pilot_rows) ** GROWTH.get(method, USUAL_GROWTH)


# of each two rows: in any case, and for each dimension
GPU_PAIR_SECONDS = {"FP16": (13e-12, 3e-15), "FP16-32": (13e-12, 3e-15), "FP32": (18e-12, 43e-15)}
COPY_BYTE_SECONDS = 8e-9
EXPORTED_PAIR_SECONDS = 0.5e-6
# of each product and sum, by cuBLAS in FP16
GEMM_SECONDS = 1 / 350e12


def predict_gpu(method, rows, dimensions, selectivity):
    """Seconds of a PyTorch method, with the ways out of the table and back where it is exported."""
    each, each_dimension = GPU_PAIR_SECONDS[method.split()[-1]]
    join = 0.1 + (each + each_dimension * dimensions) * rows ** 2 / 2
    if not method.startswith("export"):
        return join
    return join + COPY_BYTE_SECONDS * rows * (36 + 8 * dimensions) + EXPORTED_PAIR_SECONDS * selectivity * rows / 2


def predict_gemm(rows, dimensions):
    """Seconds of all products of rows with rows."""
    return GEMM_SECONDS * 2 * rows ** 2 * dimensions


# of each pair, beside what it takes to count it; "some": those of some rows alone leave the server
OUTPUT_PAIR_SECONDS = {"count": 0, "rows": 0.3e-6, "table": 0.4e-6, "some": 0.05e-6}


def predict_output(output, pairs, count_seconds=0):
    """Seconds of the join inside PostgreSQL with this output, where counting takes so long."""
    return count_seconds + OUTPUT_PAIR_SECONDS[output] * pairs


def again(done, repeats, seconds, limit_seconds):
    """Whether there is to be one more repetition, after so many that took so long: all are to end within the limit."""
    return done == 0 or (done < repeats and seconds * (done + 1) / done <= limit_seconds)


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
    """Those that are named, or have one of the given words in their name where it is no name; all without any."""
    names = {method.lower() for method in methods}
    words = [word.lower() for word in only or [""]]
    return [method for method in methods
            if any(word == method.lower() if word in names else word in method.lower() for word in words)]
