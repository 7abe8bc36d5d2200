"""The peers (bench/peers/) by the names that run.py uses."""
import importlib
from functools import partial

from peers.answer import Unavailable

TORCH = {"PyTorch FP16": {"precision": "fp16"}, "PyTorch FP16-32": {"precision": "fp16-32"},
         "PyTorch FP32": {"precision": "fp32"}}
EXPORT = {"export, PyTorch FP16-32": {"precision": "fp16-32"}, "export, PyTorch FP32": {"precision": "fp32"}}
CPU = {"FAISS flat, CPU": "faiss_join", "scikit-learn brute force": "sklearn_join"}
PGVECTOR = {"pgvector nested loop": "join_nested", "pgvector HNSW": "join_hnsw"}
METHODS = [*TORCH, *EXPORT, "export, FAISS flat", *CPU, *PGVECTOR]

# methods that use PyTorch on a GPU
ON_GPU = {*TORCH, *EXPORT}


def import_peer(name):
    """Imports a module of bench/peers; raises Unavailable if its library is missing."""
    try:
        return importlib.import_module(f"peers.{name}")
    except ImportError as error:
        raise Unavailable(str(error)) from None


def torch_join(options, device):
    module = import_peer("torch_join")
    if device == "cuda" and not module.torch.cuda.is_available():
        raise Unavailable("PyTorch cannot use a GPU")
    return partial(module.join, device=device, **options)


def join_by(method, server, table, selectivity, workers, device):
    """Returns the function join(rows, eps, limit_seconds=...) of a method; the table contains the same rows."""
    if method in TORCH:
        return torch_join(TORCH[method], device)
    if method in EXPORT:
        return partial(import_peer("export").join, server=server, table=table, inner=torch_join(EXPORT[method], device))
    if method == "export, FAISS flat":
        return partial(import_peer("export").join, server=server, table=table, inner=import_peer("faiss_join").join)
    if method in CPU:
        return import_peer(CPU[method]).join
    options = {"k": 2 * selectivity + 1} if method == "pgvector HNSW" else {}
    return partial(getattr(import_peer("pgvector"), PGVECTOR[method]), server=server, workers=workers, **options)
