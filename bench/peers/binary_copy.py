"""Convert rows and pairs from and to the binary format of PostgreSQL's COPY, with numpy."""
import numpy

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
FLOAT4 = 700                    # OID of the type real
PIECE_BYTES = 1 << 20           # a buffer of this size fits the CPU's cache

PAIR = numpy.dtype([("fields", ">i2"), ("a_size", ">i4"), ("a", ">i8"), ("b_size", ">i4"), ("b", ">i8"),
                    ("dist_size", ">i4"), ("dist", ">f8")])
ROW_HEAD = [("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("v_size", ">i4")]


def array_row(d):
    """The record type of (id bigint, v real[])."""
    return numpy.dtype([*ROW_HEAD, ("head", ">i4", 5), ("elements", [("size", ">i4"), ("value", ">f4")], d)])


def vector_row(d):
    """The record type of (id bigint, v vector), with pgvector's type vector."""
    return numpy.dtype([*ROW_HEAD, ("d", ">i2"), ("unused", ">i2"), ("elements", [("value", ">f4")], d)])


def empty_rows(count, d, kind):
    """Returns records of type "real[]" or "vector" in which only the ids and the values are not set."""
    out = numpy.zeros(count, dtype=array_row(d) if kind == "real[]" else vector_row(d))
    out["fields"], out["id_size"] = 2, 8
    if kind == "real[]":
        out["v_size"] = 20 + 8 * d
        out["head"] = [1, 0, FLOAT4, d, 1]
        out["elements"]["size"] = 4
    else:
        out["v_size"], out["d"] = 4 + 4 * d, d
    return out


def pieces_out(first, rows, kind="real[]", piece_bytes=PIECE_BYTES):
    """Yields the rows (n, d), with ids from first on, as pieces of COPY data.

    All pieces share one buffer, which the next piece overwrites.
    """
    n, d = rows.shape
    count = max(1, min(n, piece_bytes // (8 * d + 40)))
    buffer = empty_rows(count, d, kind)
    for begin in range(0, n, count):
        part = rows[begin:begin + count]
        out = buffer[:len(part)]
        out["id"] = first + begin + numpy.arange(len(part))
        out["elements"]["value"] = part
        yield memoryview(out).cast("B")


def records(data, dtype):
    """Parses the bytes of a complete binary COPY as records of one type."""
    size = len(data) - len(HEADER) - len(TRAILER)
    if data[:11] != HEADER[:11] or data[-2:] != TRAILER or size % dtype.itemsize != 0:
        raise ValueError("not a binary COPY with records of the expected type")
    return numpy.frombuffer(data, dtype, size // dtype.itemsize, len(HEADER))


def rows_in(data, d):
    """Parses rows (id bigint, v real[]); returns (ids (n,) int64, rows (n, d) float32)."""
    found = records(data, array_row(d))
    return found["id"].astype(numpy.int64), found["elements"]["value"].astype(numpy.float32)


def pairs_in(data):
    """Parses pairs (bigint, bigint, double precision); returns (a, b, dist)."""
    found = records(data, PAIR)
    return found["a"].astype(numpy.int64), found["b"].astype(numpy.int64), found["dist"].astype(numpy.float64)


def pairs_out(a, b, dist):
    """Returns the pairs as COPY data, without header and trailer."""
    out = numpy.empty(len(a), dtype=PAIR)
    out["fields"] = 3
    out["a_size"] = out["b_size"] = out["dist_size"] = 8
    out["a"], out["b"], out["dist"] = a, b, dist
    return out.tobytes()
