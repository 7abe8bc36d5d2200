"""What the sections of the report share: results, numbers, tables, plots."""
import io
import json
import re
import statistics
from pathlib import Path
from xml.etree import ElementTree

TOP = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

PUBLISHED = json.loads((HERE / "published.json").read_text())


class Results:
    """The result files of one machine; a benchmark that was not run is None."""

    def __init__(self, machine):
        self.folder = TOP / "bench/results" / machine
        self.machine = machine

    def __getitem__(self, name):
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def plot(self, name):
        """Where a plot of this machine goes."""
        return self.folder / f"{name}.svg"

    def picture(self, name, text):
        """Markdown that shows a plot in doc/."""
        return f"![{text}](../bench/results/{self.machine}/{name}.svg)"


def machines_of(results, benchmark):
    """A benchmark's results of this machine, then of the others."""
    folders = [results.folder, *sorted(f for f in results.folder.parent.iterdir() if f != results.folder)]
    return [found for found in (Results(folder.name)[benchmark] for folder in folders) if found]


def paper_set(n, d):
    """The name of the paper's real set of this shape, or of these dimensions where n is None."""
    return next((name for name, shape in PUBLISHED["sets"].items() if shape[1] == d and n in (None, shape[0])), None)


def published(kind, name, selectivity):
    """A number of the paper for one of its real sets, or None."""
    return PUBLISHED[kind].get(name, {}).get(str(selectivity))


def tflops(n, d, runs):
    """Of the median of some runs."""
    return 2.0 * n * n * d / statistics.median(runs) * 1e-12


def digits(value, count=3):
    """A number with so many significant digits, without an exponent from 1e-3 to 1e6."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 10 ** count:
        text = f"{value:#.{count}g}"
        return text.rstrip(".")
    if abs(value) < 1e6 and abs(value) >= 1:
        return f"{value:.0f}"
    return f"{value:.{count - 1}e}"


def seconds(runs):
    """Median and range of a time."""
    if len(runs) == 1:
        return f"{digits(runs[0])} (once)"
    return f"{digits(statistics.median(runs))} ({digits(min(runs))} to {digits(max(runs))})"


def table(head, rows):
    """Markdown; a column without a value is left out."""
    used = [i for i in range(len(head)) if any(row[i] not in ("", None) for row in rows)]
    head, rows = [head[i] for i in used], [[row[i] for i in used] for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def measured_at(result):
    """Which revision and day a file is of, and how often things were repeated."""
    env = result["environment"]
    return f"Revision {env['revision']}, {env['date']}."


def shorter(svg):
    """The same picture in fewer bytes: without groups that only name things, and in hundredths of a point."""
    names = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
    for prefix, uri in names.items():
        ElementTree.register_namespace(prefix, uri)

    def flat(element):
        for child in element:
            inner = list(flat(child))
            if child.tag.endswith("}g") and set(child.attrib) <= {"id"}:
                yield from inner
            else:
                child[:] = inner
                yield child

    def hundredths(found):
        return f"{round(float(found.group()), 2) + 0:.2f}".rstrip("0").rstrip(".")

    root = ElementTree.fromstring(svg)
    root[:] = list(flat(root))
    styles = {f"#{element.get('id')}": element.get("style") for element in root.iter() if element.get("style")}
    for element in root.iter():
        # a tick or a marker often says what the shape it uses says
        if element.get("style") and element.get("style") == styles.get(element.get(f"{{{names['xlink']}}}href")):
            del element.attrib["style"]
        for name, value in element.attrib.items():
            element.attrib[name] = re.sub(r"-?\d+\.\d+", hundredths, " ".join(value.split()))
        # powers of ten come without a family to fall back on
        if element.get("style", "").endswith("'DejaVu Sans'"):
            element.attrib["style"] += ", sans-serif"
        if (element.get("transform") or "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        element.text, element.tail = (element.text or "").strip() or None, "\n"
    return ElementTree.tostring(root, encoding="unicode")


def save(figure, path):
    """SVG, the same bytes for the same data; text stays text."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", bbox_inches="tight",
                   metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    Path(path).write_text(shorter(drawn.getvalue()), encoding="utf-8")


def figure(columns=1, width=5.5, height=3.8, **options):
    """A figure with one row of axes, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    matplotlib.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
                                "axes.spines.right": False, "legend.frameon": False,
                                "font.sans-serif": ["DejaVu Sans"], "svg.fonttype": "none", "svg.hashsalt": "fasted"})
    return matplotlib.pyplot.subplots(1, columns, figsize=(width * columns, height), squeeze=False, **options)
