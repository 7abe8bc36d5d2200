"""The join in PyTorch, as a competent user would write it.

Tiles of the upper triangle: one matrix product, |q|^2 - 2 p.q <= eps^2 - |p|^2 in
FP32, nonzero, distances of the hits.  Norms are FP32, of the rows as multiplied.
Precisions:

  fp16      rows in FP16, products returned in FP16: torch.matmul of half tensors
  fp16-32   rows in FP16, products returned in FP32 (out_dtype), norms added by the
            product itself (addmm) where the version does that
  fp32      rows in FP32, TF32 off, addmm

Hits stay on the device, 12 bytes each, and come to the host in one copy for each
flush_pairs of them.  Host memory is pageable: pinning it costs more than it saves
where it is used once.  Runs on device "cpu" too.
"""
import functools

import torch

from .answer import Clock, Unsuitable, joined

PRECISIONS = ("fp16", "fp16-32", "fp32")
COLUMNS = ("int32", "int32", "float32")
FP16_MOST = 65504.0


def precise():
    """No TF32, and no FP16 sums of partial products."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def synchronise(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def shifted_fp16(p, q, q2):
    """(m, k) FP32: |q|^2 - 2 p.q by products in FP16."""
    return torch.add(q2, p @ q.T, alpha=-2)


@functools.cache
def addmm_returns_fp32():
    """Whether addmm takes FP16 matrices with an FP32 vector, which depends on the version."""
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
    """(a, b, dist) of a tile's pairs, on the device; of a diagonal tile, those with a < b."""
    near = shifted <= (eps2 - p2)[:, None]
    if first_row == first_column:
        near = near.triu_(1)
    i, j = near.nonzero(as_tuple=True)
    dist = (shifted[i, j] + p2[i]).clamp_(min=0).sqrt_()
    return (i + first_row).int(), (j + first_column).int(), dist


def to_host(pieces):
    return tuple(torch.cat(column).cpu().numpy() for column in zip(*pieces))


def tiles(n, tile):
    """First row and first column of the upper triangle's tiles."""
    return [(i, j) for i in range(0, n, tile) for j in range(i, n, tile)]


def upload(rows, precision, device):
    """(x, |x|^2) on the device."""
    x = torch.from_numpy(rows).to(device)
    if precision != "fp32":
        x = x.half()
    norms = torch.cat([part.float().square().sum(1) for part in x.split(1 << 20)])
    return x, norms


def join(rows, eps, limit_seconds=float("inf"), precision="fp16-32", device="cuda", tile=8192,
         flush_pairs=1 << 28):
    """rows (n, d) float32; tile in rows."""
    precise()
    clock = Clock(limit_seconds)
    x, norms = upload(rows, precision, device)
    if precision == "fp16" and (most := float(norms.max())) > FP16_MOST:
        raise Unsuitable(f"products of up to {most:.0f} overflow FP16, and every such pair would seem near")
    synchronise(device)
    clock.lap("upload")

    shifted_products = SHIFTED[precision]
    host, pieces, held = [], [], 0
    todo = tiles(len(rows), tile)
    for number, (i, j) in enumerate(todo):
        shifted = shifted_products(x[i:i + tile], x[j:j + tile], norms[j:j + tile])
        piece = hits_of_tile(shifted, norms[i:i + tile], float(eps) ** 2, i, j)
        if len(piece[0]) > 0:
            pieces.append(piece)
            held += len(piece[0])
        if held > flush_pairs:
            synchronise(device)
            clock.lap("tiles")
            host.append(to_host(pieces))
            pieces, held = [], 0
            clock.lap("download")
        clock.check((number + 1) / len(todo))
    synchronise(device)
    clock.lap("tiles")
    if pieces:
        host.append(to_host(pieces))
    a, b, dist = joined(host, COLUMNS)
    clock.lap("download")
    return clock.answer(a, b, dist, precision=precision, device=device, tile=tile)


def release():
    """Gives the GPU memory that PyTorch keeps back, for whoever comes next."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# --- cuBLAS GEMM alone

def timed(device, work):
    """Seconds of work(), by events on a GPU."""
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
    """{form: [seconds, ...]} of the products alone, from rows on the device to products in
    preallocated memory: "whole", one n x n product, where that takes at most whole_bytes;
    "tiles", all n x n in tiles; "triangle", the tiles of the upper triangle.  Of a form that
    takes long, as many repetitions as fit the limit, or one."""
    precise()
    x, _ = upload(rows, precision, device)
    n, size = len(rows), x.element_size()

    def products(corners, side):
        out = torch.empty((min(side, n), min(side, n)), dtype=x.dtype, device=device)

        def work():
            for i, j in corners:
                p, q = x[i:i + side], x[j:j + side]
                room = out if (len(p), len(q)) == tuple(out.shape) else out.view(-1)[:len(p) * len(q)].view(len(p), -1)
                torch.matmul(p, q.T, out=room)
        return work

    forms = {"tiles": products([(i, j) for i in range(0, n, tile) for j in range(0, n, tile)], tile),
             "triangle": products(tiles(n, tile), tile)}
    if size * n * n <= whole_bytes:
        forms["whole"] = products([(0, 0)], n)
    seconds = {}
    for form, work in forms.items():
        # the first wakes cuBLAS
        first = timed(device, work)
        count = repeats if first * repeats <= limit_seconds else max(1, int(limit_seconds / first))
        seconds[form] = [timed(device, work) for _ in range(count)]
    return seconds
