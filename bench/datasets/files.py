"""Vector files: fvecs, bvecs, ivecs and npy, mapped into memory and read in pieces.

A vecs file is a sequence of records.  A record consists of the dimension d, as a 32-bit
integer, and of d values (fvecs: float32, bvecs: uint8, ivecs: int32), all little-endian.
The file has n * (4 + d * size) bytes.  If the length of the file or the dimension of a record
does not fit, a FormatError that names the file and the record is raised.
"""
import os
from pathlib import Path

import numpy

TYPES = {".fvecs": numpy.dtype("<f4"), ".bvecs": numpy.dtype("u1"), ".ivecs": numpy.dtype("<i4")}
PIECE = 65536                   # rows read or written at a time
MOST_DIMENSIONS = 1 << 20       # a larger dimension means that the file is not a vecs file


class MissingFile(FileNotFoundError):
    """The file of a real data set is not in the data folder."""


def folder():
    """Returns the data folder: FASTED_DATA, or files/ in the folder of this module."""
    return Path(os.environ.get("FASTED_DATA") or Path(__file__).resolve().parent / "files")


def require(path, name):
    """Returns the path of a real data set's file; raises MissingFile if it does not exist."""
    if not path.exists():
        raise MissingFile(f"{path} is missing; make it with\n    bench/datasets/make.py {name}")
    return path


class FormatError(ValueError):
    """The contents of a file do not match its format."""


def kind(path):
    """Returns the suffix of a vector file; raises FormatError if the format is unknown."""
    suffix = Path(path).suffix
    if suffix not in TYPES and suffix != ".npy":
        raise FormatError(f"{path}: not a vector file; known formats are {', '.join([*TYPES, '.npy'])}")
    return suffix


def _map_vecs(path, element):
    """Maps a vecs file as an array of records (d, values); checks the file's length against the first record."""
    size = Path(path).stat().st_size
    head = numpy.fromfile(path, "<i4", 1)
    if len(head) == 0:
        raise FormatError(f"{path}: record 0: the file ends before its dimension")
    d = int(head[0])
    if not 0 < d <= MOST_DIMENSIONS:
        raise FormatError(f"{path}: record 0: dimension {d}")
    record = numpy.dtype([("d", "<i4"), ("values", element, (d,))])
    if size % record.itemsize:
        raise FormatError(f"{path}: record {size // record.itemsize}: only {size % record.itemsize} bytes of {record.itemsize}; "
                          f"the file is truncated, or not all of its records have {d} dimensions")
    return numpy.memmap(path, record, "r")


def _map_npy(path):
    try:
        array = numpy.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise FormatError(f"{path}: {error}") from error
    if array.ndim != 2:
        raise FormatError(f"{path}: the array has {array.ndim} dimensions instead of 2")
    return array


def shape(path):
    """Returns (n, d) of a file."""
    suffix = kind(path)
    if suffix == ".npy":
        return _map_npy(path).shape
    records = _map_vecs(path, TYPES[suffix])
    return len(records), records.dtype["values"].shape[0]


def pieces(path, first=0, rows=None):
    """Yields (number of the first row, array) for pieces of at most PIECE rows; checks the records' dimensions."""
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
                          f"but record 0 has {d}")
    return records["values"]


def read(path, rows=None, dtype=numpy.float32):
    """Returns the first rows of a file, or all rows: array (n, d) of the given type, C-contiguous."""
    n, d = shape(path)
    result = numpy.empty((n if rows is None else min(n, rows), d), dtype)
    for begin, piece in pieces(path, 0, len(result)):
        result[begin:begin + len(piece)] = piece
    return result


def read_rows(path, numbers, dtype=numpy.float32):
    """Returns the rows with the given row numbers, in this order: array (len(numbers), d)."""
    n, d = shape(path)
    numbers = numpy.asarray(numbers)
    result = numpy.empty((len(numbers), d), dtype)
    order = numpy.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    if len(numbers) and not 0 <= sorted_numbers[0] <= sorted_numbers[-1] < n:
        raise IndexError(f"{path}: row number out of range; the file has rows 0 to {n - 1}")
    for begin, piece in pieces(path):
        low, high = numpy.searchsorted(sorted_numbers, (begin, begin + len(piece)))
        result[order[low:high]] = piece[sorted_numbers[low:high] - begin]
    return result


def check(path):
    """Checks the dimension of every record of a file; returns (n, d)."""
    for _ in pieces(path):
        pass
    return shape(path)


def write(path, arrays):
    """Writes arrays (rows, d) one after another to one file, in the format that its suffix names."""
    suffix = kind(path)
    if suffix == ".npy":
        numpy.save(path, numpy.ascontiguousarray(numpy.concatenate(list(arrays))))
        return
    element, d = TYPES[suffix], None
    with open(path, "wb") as file:
        for array in arrays:
            d = array.shape[1] if d is None else d
            if array.shape[1] != d:
                raise FormatError(f"{path}: an array has {array.shape[1]} dimensions, but the first one has {d}")
            for begin in range(0, len(array), PIECE):
                piece = array[begin:begin + PIECE]
                records = numpy.empty(len(piece), [("d", "<i4"), ("values", element, (d,))])
                records["d"], records["values"] = d, piece
                records.tofile(file)
