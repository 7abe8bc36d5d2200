#!/usr/bin/env python3
"""Tests of the committed results, of the pages made from them, and of the plots if matplotlib is installed.

    bench/report/test_report.py [-v]
"""
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import chosen  # noqa: E402
import clustering  # noqa: E402
import figures  # noqa: E402
import hdbscan  # noqa: E402
import over_rows  # noqa: E402
import page  # noqa: E402
import record  # noqa: E402
import rows_out  # noqa: E402
import run  # noqa: E402

# names of values that follow from the runs; result files do not contain them
DERIVED = {"median", "all", "edges", "summary", "ratios"}


def names(value):
    """Returns all names in a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(names, value.values()))
    return set().union(*map(names, value)) if isinstance(value, list) else set()


class Committed(unittest.TestCase):
    def results(self):
        found = {path.relative_to(record.RESULTS): path.read_text() for path in record.RESULTS.glob("*/*.json")}
        self.assertGreater(len(found), 5)
        return found.items()

    def test_one_measurement_a_line(self):
        for path, text in self.results():
            with self.subTest(path):
                measurements = [m for value in json.loads(text).values() if isinstance(value, list) for m in value]
                objects = [line.rstrip(",") for line in text.splitlines() if line.startswith("  {")]
                self.assertEqual(len(objects), len(measurements))
                self.assertEqual(list(map(json.loads, objects)), measurements)

    def test_nothing_derived(self):
        for path, text in self.results():
            with self.subTest(path):
                self.assertEqual(names(json.loads(text)) & DERIVED, set())

    def test_plots_are_svg(self):
        kept = {path.suffix for path in record.RESULTS.glob("*/*")}
        self.assertEqual(kept, {".json", ".md", ".svg"})
        for path in record.RESULTS.glob("*/*.svg"):
            with self.subTest(path.relative_to(record.RESULTS)):
                self.assertIn("<text", path.read_text(encoding="utf-8"))
                self.assertLess(path.stat().st_size, 60000)


class Written(unittest.TestCase):
    RESULT = {"benchmark": "x", "environment": {"gpu": "y", "python": {"numpy": "1"}}, "settings": {}, "clocks": [],
              "measurements": [{"d": 64, "seconds": [0.1, 0.30000000000000004]}, {"d": 128, "seconds": [1e-9]}]}

    def test_text(self):
        text = record.text(self.RESULT)
        self.assertEqual(json.loads(text), self.RESULT)
        self.assertIn('\n  {"d": 64, "seconds": [0.1, 0.30000000000000004]},\n  {"d": 128, "seconds": [1e-09]}\n ]\n}\n', text)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(record, "RESULTS", Path(folder)):
            path = record.save("some-machine", "x", self.RESULT)
            self.assertEqual(path, Path(folder) / "some-machine/x.json")
            self.assertEqual(path.read_text(), record.text(self.RESULT))

    def test_storage_has_own_files(self):
        self.assertEqual(record.path_of("m", "x").name, "x.json")
        with mock.patch.object(record, "STORAGE", "PLAIN"):
            self.assertEqual(record.path_of("m", "x").name, "x_plain.json")

    def test_clocks(self):
        monitor = record.GpuMonitor()
        monitor.samples = [(1000.0, 300.0, 90.0), (1200.0, 500.0, 99.0), (1100.0, 450.0, 80.0), (5.0, 5.0, 0.0)]
        self.assertEqual(monitor.summary(), {"sm_clock_mhz": [1000.0, 1100.0, 1200.0], "power_w": [300.0, 450.0, 500.0]})


class Times(unittest.TestCase):
    def test_of_runs(self):
        self.assertEqual(page.tflops(10 ** 6, 50, [9.0, 100.0, 50.0]), 2.0)


class Made(page.Results):
    """Results that are not in files."""

    def __init__(self, **files):
        super().__init__("made")
        self.files = files

    def __getitem__(self, name):
        return self.files.get(name)


def measurement(method, output, rows, seconds):
    return {"data": "tiny-like", "rows": rows, "dimensions": 384, "selectivity": 64, "method": method, "output": output,
            "seconds": {"first": [9 * seconds], "warm": [seconds]}}


class OverRows(unittest.TestCase):
    ENVIRONMENT = {"gpu": "some GPU", "processor": "Some(R) Processor", "processors": 16}
    MEASURED = [measurement("fasted cuda", "count", rows, 1e-10 * rows ** 2) for rows in (1000, 10000, 100000)]
    MEASURED += [measurement("fasted cuda", "rows", 10000, 0.5), measurement("FAISS flat, CPU", "rows", 10000, 2.0),
                 {"data": "tiny-like", "rows": 100000, "method": "FAISS flat, CPU", "reason": "too slow"}]

    def results(self):
        return Made(over_rows={"environment": self.ENVIRONMENT, "measurements": self.MEASURED})

    def test_methods(self):
        (ours, points), (peer, others) = over_rows.methods(self.results())
        self.assertEqual((ours, list(points), peer), ("fasted, some GPU", ["count", "rows"], "FAISS"))
        self.assertAlmostEqual(over_rows.exponent(over_rows.first(points)), 2)
        self.assertIsNone(over_rows.exponent(over_rows.first(others)))

    def test_description(self):
        text = "\n".join(over_rows.lines(self.results()))
        self.assertIn("(results/made/over_rows.svg)", text)
        self.assertIn("Hollow markers", text)
        self.assertEqual(over_rows.lines(Made()), [])


class Hdbscan(unittest.TestCase):
    """Results of a machine of which there is no folder, so that machines_of() is replaced."""
    CASE = {"data": "debian-minilm", "rows": 20000, "dimensions": 384}
    FOUND = {"environment": {"gpu": "some GPU", "revision": "r", "date": "d"}, "settings": {"k": 16, "min_samples": 10, "min_cluster_size": 5},
             "measurements": [{**CASE, "method": "fasted_knn_join", "seconds": {"first": [9.0], "warm": [2.0]}},
                              {**CASE, "method": "fasted_hdbscan", "seconds": {"first": [9.0], "warm": [2.0, 3.0, 4.0]}},
                              {**CASE, "method": "scikit-learn", "seconds": {"warm": [30.0]}, "rows_that_differ": 7},
                              {**CASE, "method": "hdbscan", "reason": "not available"}]}

    def test_section(self):
        with mock.patch.object(hdbscan, "machines_of", lambda *_: [Made(hdbscan=self.FOUND)]):
            text = hdbscan.section(None)
        self.assertIn("some GPU, `min_samples` and `min_cluster_size` 10 and 5. Revision r, d.", text)
        self.assertIn("| `fasted_knn_join`, k = 16 | 2.00 (1.00) |", text)
        self.assertIn("| `fasted_hdbscan` | 3.00 (1.50) |", text)
        self.assertIn("| scikit-learn, brute force | 30.0 (15.0, 7 rows differ) |", text)
        self.assertNotIn("| hdbscan |", text)

    def test_figure(self):
        self.assertEqual(figures.hierarchy(Made(hdbscan=self.FOUND)), "3.0 s for 20000 x 384")


class Storage(unittest.TestCase):
    def test_in_line(self):
        """Results without a storage are old, and were measured in line."""
        for storage, due in (({}, "960, in line"), ({"storage": "PLAIN"}, "960, in line"), ({"storage": "default"}, 960)):
            m = {**measurement("fasted cuda", "count", 1000, 1.0), "dimensions": 960}
            found = Made(real_world={"environment": storage, "measurements": [m, {**m, "rows": 9, "dimensions": 384}]})
            with self.subTest(storage):
                self.assertEqual(list(map(chosen.dimensions, chosen.measured(found))), [due, 384])
                self.assertEqual(bool(page.stored(storage)), due != 960)


class Agreement(unittest.TestCase):
    def test_clustering(self):
        case = {"data": "x", "rows": 9, "metric": "cosine"}
        found = [{**case, "method": "count", "answer": 5}, {**case, "method": "USearch", "beside": "count", "answer": 4, "missed": 2, "spurious": 1},
                 {**case, "method": "SemHash", "beside": "count", "reason": "not available"}]
        self.assertEqual(list(clustering.agreement(found)), ["USearch 4 (5; 2 missed, 1 spurious)"])

    def test_rows_out(self):
        found = {"ids join": [4.0, 2.0, 3.0], "count join": [1.0]}
        self.assertEqual(rows_out.line(found, 10 ** 8, "join")[1:], ["3.00", "1.00", "30.0", "20.0"])


class Figures(unittest.TestCase):
    def unknown(self, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "README.md").write_text(text)
            return figures.unknown(Path(folder))

    def test_unknown(self):
        for text in ("It takes 0.5 s.", "9 to 12 times", "100 ms", "two to three times", "2771 TFLOPS", "half a second"):
            with self.subTest(text):
                self.assertEqual(len(self.unknown(f"\n{text}\n")), 1)
                self.assertIn("README.md:2: ", self.unknown(f"\n{text}\n")[0])

    def test_known(self):
        for text in ("```\n0.5 s\n```", "`SET x = 5 s`", "<!--measured:a-->\n5 s\n<!--/measured-->", "about 3 minutes", "PostgreSQL 15 supports"):
            with self.subTest(text):
                self.assertEqual(self.unknown(text), [])

    def test_replaced(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(figures.FIGURES, {"dbscan": lambda _: "7 s"}):
            path = Path(folder) / "README.md"
            path.write_text("It takes <!--measured:dbscan-->5 s<!--/measured-->.")
            with mock.patch.object(figures, "paths", lambda: [path]):
                self.assertEqual(figures.pages(None), {path: "It takes <!--measured:dbscan-->7 s<!--/measured-->."})


class Plots(unittest.TestCase):
    def test_shorter(self):
        """Shapes, text and references remain. Names of groups, unnecessary digits and repeated styles are removed."""
        svg = ('<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><g id="axes_1"><g id="tick">'
               '<defs><path id="m1" d="M 0 0 \nL 0 3.500001" style="stroke: #000000"/></defs>'
               '<use xlink:href="#m1" x="1.234567" y="-0.001" style="stroke: #000000"/>'
               '<use xlink:href="#m1" x="2" y="3" style="stroke: #ff0000"/></g></g>'
               '<g transform="translate(1.005 2)"><text>a b 1.23456</text></g></svg>')
        self.assertEqual(page.shorter(svg).replace("\n", ""),
                         '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
                         '<defs><path id="m1" d="M 0 0 L 0 3.5" style="stroke: #000000" /></defs>'
                         '<use xlink:href="#m1" x="1.23" y="0" />'
                         '<use xlink:href="#m1" x="2" y="3" style="stroke: #ff0000" />'
                         '<g transform="translate(1 2)"><text>a b 1.23456</text></g></svg>')

    def test_same_bytes_twice(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError as error:
            raise unittest.SkipTest(str(error)) from None
        results = page.Results("nvidia-h200")
        with tempfile.TemporaryDirectory() as folder:
            for turn in "ab":
                with mock.patch.object(page.Results, "plot", lambda _, name, turn=turn: Path(folder) / f"{name}-{turn}.svg"):
                    for module in run.PLOTTED:
                        module.plot(results)
            written = sorted(path.name for path in Path(folder).iterdir())
            self.assertEqual(len(written), 2 * len(run.PLOTTED))
            for first, second in zip(written[::2], written[1::2]):
                text = (Path(folder) / first).read_text(encoding="utf-8")
                self.assertEqual(text, (Path(folder) / second).read_text(encoding="utf-8"))
                self.assertNotIn("<image", text)
                self.assertIn("<text", text)


if __name__ == "__main__":
    unittest.main()
