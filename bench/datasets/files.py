"""Files of vectors: fvecs, bvecs, ivecs and npy, mapped into memory and read in pieces.

A vecs file is a row of records, each the dimension d as a 32-bit integer and d values
(fvecs: float32, bvecs: uint8, ivecs: int32), all little-endian; so it has
n * (4 + d * size) bytes.  A file of another length, or a record of another dimension,
is refused with a FormatError that names the file and the record.
"""
import os
from pathlib import Path

import numpy

TYPES = {".fvecs": numpy.dtype("<f4"), ".bvecs": numpy.dtype("u1"), ".ivecs": numpy.dtype("<i4")}
PIECE = 65536                   # rows read or written at a time
MOST_DIMENSIONS = 1 << 20       # more is a file of something else


class MissingFile(FileNotFoundError):
    """A real set that is not in the data folder."""


def folder():
    """Where files of sets are: FASTED_DATA, or files/ here."""
    return Path(os.environ.get("FASTED_DATA") or Path(__file__).resolve().parent / "files")


def existing(path, name):
    """The path of a real set's file, which must be there."""
    if not path.exists():
        raise MissingFile(f"{path} is missing: make it with\n    bench/datasets/make.py {name}")
    return path


class FormatError(ValueError):
    """A file that is not what its name says."""


def kind(path):
    """The suffix of a file that can be read here."""
    suffix = Path(path).suffix
    if suffix not in TYPES and suffix != ".npy":
        raise FormatError(f"{path}: not a file of vectors; known are {', '.join([*TYPES, '.npy'])}")
    return suffix


def _map_vecs(path, element):
    """A vecs file as records of (d, values), its length checked against its first record."""
    size = Path(path).stat().st_size
    head = numpy.fromfile(path, "<i4", 1)
    if len(head) == 0:
        raise FormatError(f"{path}: record 0: the file ends before its dimension")
    d = int(head[0])
    if not 0 < d <= MOST_DIMENSIONS:
        raise FormatError(f"{path}: record 0: dimension {d}")
    record = numpy.dtype([("d", "<i4"), ("values", element, (d,))])
    if size % record.itemsize:
        raise FormatError(f"{path}: record {size // record.itemsize}: {size % record.itemsize} bytes of the "
                          f"{record.itemsize} that a record of {d} dimensions has; cut short, or of differing dimensions")
    return numpy.memmap(path, record, "r")


def _map_npy(path):
    try:
        array = numpy.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise FormatError(f"{path}: {error}") from error
    if array.ndim != 2:
        raise FormatError(f"{path}: an array of {array.ndim} dimensions, where (n, d) is wanted")
    return array


def shape(path):
    """(n, d) of a file."""
    suffix = kind(path)
    if suffix == ".npy":
        return _map_npy(path).shape
    records = _map_vecs(path, TYPES[suffix])
    return len(records), records.dtype["values"].shape[0]


def pieces(path, first=0, rows=None):
    """Yields (row number, array (up to PIECE, d) of the file's own type), the records' dimensions checked."""
    suffix = kind(path)
    whole = _map_npy(path) if suffix == ".npy" else _map_vecs(path, TYPES[suffix])
    end = len(whole) if rows is None else min(len(whole), first + rows)
    for begin in range(first, end, PIECE):
        piece = whole[begin:min(end, begin + PIECE)]
        yield begin, piece if suffix == ".npy" else _values(path, begin, piece)


def _values(path, begin, records):
    d = records.dtype["values"].shape[0]
    wrong = numpy.flatnonzero(records["d"] != d)
    if len(wrong):
        raise FormatError(f"{path}: record {begin + wrong[0]}: dimension {records['d'][wrong[0]]}, "
                          f"where record 0 has {d}")
    return records["values"]


def read(path, rows=None, dtype=numpy.float32):
    """The first rows of a file, or all: array (n, d), C-contiguous, of the type asked for."""
    n, d = shape(path)
    result = numpy.empty((n if rows is None else min(n, rows), d), dtype)
    for begin, piece in pieces(path, 0, len(result)):
        result[begin:begin + len(piece)] = piece
    return result


def read_some(path, numbers, dtype=numpy.float32):
    """The rows of these numbers, in their order: array (len(numbers), d)."""
    n, d = shape(path)
    numbers = numpy.asarray(numbers)
    result = numpy.empty((len(numbers), d), dtype)
    order = numpy.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    if len(numbers) and not 0 <= sorted_numbers[0] <= sorted_numbers[-1] < n:
        raise IndexError(f"{path}: has rows 0 to {n - 1}")
    for begin, piece in pieces(path):
        low, high = numpy.searchsorted(sorted_numbers, (begin, begin + len(piece)))
        result[order[low:high]] = piece[sorted_numbers[low:high] - begin]
    return result


def check(path):
    """(n, d) of a file whose every record was looked at."""
    for _ in pieces(path):
        pass
    return shape(path)


def write(path, arrays):
    """Writes arrays (rows, d) one after another as one file, of the type that its name says."""
    suffix = kind(path)
    if suffix == ".npy":
        numpy.save(path, numpy.ascontiguousarray(numpy.concatenate(list(arrays))))
        return
    element, d = TYPES[suffix], None
    with open(path, "wb") as file:
        for array in arrays:
            d = array.shape[1] if d is None else d
            if array.shape[1] != d:
                raise FormatError(f"{path}: rows of {array.shape[1]} dimensions after rows of {d}")
            for begin in range(0, len(array), PIECE):
                piece = array[begin:begin + PIECE]
                records = numpy.empty(len(piece), [("d", "<i4"), ("values", element, (d,))])
                records["d"], records["values"] = d, piece
                records.tofile(file)
