"""Join with PyTorch, as an experienced user would write it.

The upper triangle of all pairs is processed in tiles.  A tile needs one matrix product, the
comparison |q|^2 - 2 p.q <= eps^2 - |p|^2 in FP32, nonzero, and the distances of the pairs
found.  The norms are computed in FP32, from the rows in the precision of the product.  The
precisions are:

  fp16      rows in FP16, products returned in FP16 (torch.matmul of half tensors)
  fp16-32   rows in FP16, products returned in FP32 (out_dtype); addmm adds the norms, if
            this version of PyTorch supports that
  fp32      rows in FP32, TF32 disabled, addmm

The pairs are collected on the device, with 12 bytes each, and copied to the host when there
are more than flush_pairs.  Host memory is pageable, because pinning memory that is used once
costs more time than it saves.  The device "cpu" is supported, too.
"""
import functools

import torch

from .answer import Clock, Unsuitable, concatenate

PRECISIONS = ("fp16", "fp16-32", "fp32")
COLUMNS = ("int32", "int32", "float32")
FP16_MOST = 65504.0


def disable_reduced_precision():
    """Disables TF32 and FP16 reductions in matrix products."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def synchronise(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def shifted_fp16(p, q, q2):
    """Returns |q|^2 - 2 p.q, computed from products in FP16: (m, k) FP32."""
    return torch.add(q2, p @ q.T, alpha=-2)


@functools.cache
def addmm_returns_fp32():
    """Returns whether addmm of this version accepts FP16 matrices with an FP32 vector."""
    ones = torch.ones((16, 16), dtype=torch.float16, device="cuda")
    try:
        return bool((torch.addmm(ones[0].float(), ones, ones, alpha=-2, out_dtype=torch.float32) == -31).all())
    except (RuntimeError, TypeError):
        return False


def shifted_fp16_32(p, q, q2):
    if not p.is_cuda:
        return torch.addmm(q2, p.float(), q.float().T, alpha=-2)
    if addmm_returns_fp32():
        return torch.addmm(q2, p, q.T, alpha=-2, out_dtype=torch.float32)
    products = torch.mm(p, q.T, out_dtype=torch.float32)
    return torch.add(q2, products, alpha=-2, out=products)


def shifted_fp32(p, q, q2):
    return torch.addmm(q2, p, q.T, alpha=-2)


SHIFTED = {"fp16": shifted_fp16, "fp16-32": shifted_fp16_32, "fp32": shifted_fp32}


def hits_of_tile(shifted, p2, eps2, first_row, first_column):
    """Returns (a, b, dist) of a tile's pairs with a < b, on the device."""
    near = shifted <= (eps2 - p2)[:, None]
    if first_row == first_column:
        near = near.triu_(1)
    i, j = near.nonzero(as_tuple=True)
    dist = (shifted[i, j] + p2[i]).clamp_(min=0).sqrt_()
    return (i + first_row).int(), (j + first_column).int(), dist


def to_host(pieces):
    return tuple(torch.cat(column).cpu().numpy() for column in zip(*pieces))


def tiles(n, tile):
    """Returns (first row, first column) of each tile of the upper triangle."""
    return [(i, j) for i in range(0, n, tile) for j in range(i, n, tile)]


def upload(rows, precision, device):
    """Copies the rows to the device; returns (x, |x|^2)."""
    x = torch.from_numpy(rows).to(device)
    if precision != "fp32":
        x = x.half()
    norms = torch.cat([part.float().square().sum(1) for part in x.split(1 << 20)])
    return x, norms


def join(rows, eps, limit_seconds=float("inf"), precision="fp16-32", device="cuda", tile=8192,
         flush_pairs=1 << 28):
    """Joins rows (n, d) float32; tile is the number of rows and of columns of a tile."""
    disable_reduced_precision()
    clock = Clock(limit_seconds)
    x, norms = upload(rows, precision, device)
    if precision == "fp16" and (most := float(norms.max())) > FP16_MOST:
        raise Unsuitable(f"products of up to {most:.0f} overflow FP16, so that these pairs would be reported as near")
    synchronise(device)
    clock.lap("upload")

    shifted_products = SHIFTED[precision]
    host, pieces, pairs = [], [], 0
    todo = tiles(len(rows), tile)
    for number, (i, j) in enumerate(todo):
        shifted = shifted_products(x[i:i + tile], x[j:j + tile], norms[j:j + tile])
        piece = hits_of_tile(shifted, norms[i:i + tile], float(eps) ** 2, i, j)
        if len(piece[0]) > 0:
            pieces.append(piece)
            pairs += len(piece[0])
        if pairs > flush_pairs:
            synchronise(device)
            clock.lap("tiles")
            host.append(to_host(pieces))
            pieces, pairs = [], 0
            clock.lap("download")
        clock.check((number + 1) / len(todo))
    synchronise(device)
    clock.lap("tiles")
    if pieces:
        host.append(to_host(pieces))
    a, b, dist = concatenate(host, COLUMNS)
    clock.lap("download")
    return clock.answer(a, b, dist, precision=precision, device=device, tile=tile)


def release():
    """Releases the GPU memory that PyTorch caches."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# --- cuBLAS matrix products without the join

def timed(device, work):
    """Returns the seconds that work() takes; CUDA events measure them on a GPU."""
    clock = Clock()
    if not device.startswith("cuda"):
        work()
        return clock.seconds()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def gemm_floor(rows, precision="fp16", device="cuda", tile=8192, whole_bytes=64 << 30, repeats=5, limit_seconds=float("inf")):
    """Times the matrix products alone, from rows on the device to preallocated device memory.

    Returns {form: [seconds, ...]}.  The forms are "whole" (one n x n product, skipped if it needs
    more than whole_bytes), "tiles" (n x n in tiles) and "triangle" (the tiles of the upper
    triangle).  A slow form is repeated only as often as limit_seconds permits, but at least once.
    """
    disable_reduced_precision()
    x, _ = upload(rows, precision, device)
    n, size = len(rows), x.element_size()

    def products(corners, side):
        out = torch.empty((min(side, n), min(side, n)), dtype=x.dtype, device=device)

        def work():
            for i, j in corners:
                p, q = x[i:i + side], x[j:j + side]
                part = out if (len(p), len(q)) == tuple(out.shape) else out.view(-1)[:len(p) * len(q)].view(len(p), -1)
                torch.matmul(p, q.T, out=part)
        return work

    forms = {"tiles": products([(i, j) for i in range(0, n, tile) for j in range(0, n, tile)], tile),
             "triangle": products(tiles(n, tile), tile)}
    if size * n * n <= whole_bytes:
        forms["whole"] = products([(0, 0)], n)
    seconds = {}
    for form, work in forms.items():
        # the first run initializes cuBLAS and is not reported
        first = timed(device, work)
        count = repeats if first * repeats <= limit_seconds else max(1, int(limit_seconds / first))
        seconds[form] = [timed(device, work) for _ in range(count)]
    return seconds
