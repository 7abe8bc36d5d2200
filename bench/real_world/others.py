"""The peers (bench/peers/) by name, as run.py calls them."""
import importlib
from functools import partial

from peers.answer import Unavailable

TORCH = {"PyTorch FP16": {"precision": "fp16"}, "PyTorch FP16-32": {"precision": "fp16-32"},
         "PyTorch FP32": {"precision": "fp32"}}
EXPORT = {"export, PyTorch FP16-32": {"precision": "fp16-32"}, "export, PyTorch FP32": {"precision": "fp32"}}
CPU = {"FAISS flat, CPU": "faiss_join", "scikit-learn brute force": "sklearn_join"}
PGVECTOR = {"pgvector nested loop": "join_nested", "pgvector HNSW": "join_hnsw"}
METHODS = [*TORCH, *EXPORT, "export, FAISS flat", *CPU, *PGVECTOR]

# with PyTorch
ON_GPU = {*TORCH, *EXPORT}


def library(name):
    try:
        return importlib.import_module(f"peers.{name}")
    except ImportError as error:
        raise Unavailable(str(error)) from None


def torch_join(options, device):
    module = library("torch_join")
    if device == "cuda" and not module.torch.cuda.is_available():
        raise Unavailable("PyTorch sees no GPU")
    return partial(module.join, device=device, **options)


def join_by(method, server, table, selectivity, workers, device):
    """join(rows, eps, limit_seconds=...) of a method; table holds the same rows."""
    if method in TORCH:
        return torch_join(TORCH[method], device)
    if method in EXPORT:
        return partial(library("export").join, server=server, table=table, inner=torch_join(EXPORT[method], device))
    if method == "export, FAISS flat":
        return partial(library("export").join, server=server, table=table, inner=library("faiss_join").join)
    if method in CPU:
        return library(CPU[method]).join
    options = {"k": 2 * selectivity + 1} if method == "pgvector HNSW" else {}
    return partial(getattr(library("pgvector"), PGVECTOR[method]), server=server, workers=workers, **options)
