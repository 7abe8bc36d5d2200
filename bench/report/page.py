"""Functions that the sections of the report share: results, numbers, tables, plots."""
import io
import json
import re
import statistics
from pathlib import Path
from xml.etree import ElementTree

TOP = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

IN_LINE = "../doc/limits.md#faster-reading"

PUBLISHED = json.loads((HERE / "published.json").read_text())


class Results:
    """The result files of one machine. A benchmark without a result file is None."""

    def __init__(self, machine):
        self.folder = TOP / "bench/results" / machine
        self.machine = machine

    def __getitem__(self, name):
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def plot(self, name):
        """Returns the path of a plot of this machine."""
        return self.folder / f"{name}.svg"

    def picture(self, name, text):
        """Returns Markdown that shows a plot in bench/evaluation.md."""
        return f"![{text}](results/{self.machine}/{name}.svg)"


def machines_of(results, *benchmarks):
    """Returns the Results that have one of the benchmarks: of this machine first, then of the other machines."""
    folders = [results.folder, *sorted(f for f in results.folder.parent.iterdir() if f != results.folder)]
    return [machine for machine in (Results(folder.name) for folder in folders) if any(machine[name] for name in benchmarks)]


def cpu_name(env):
    """Returns for example "16 CPU cores (Intel Xeon)"."""
    return f"{env['processors']} CPU cores ({re.sub(r'[(]R[)]| Processor', '', env['processor'])})"


def hardware(env):
    """Returns the name of the GPU, or of the CPU on a machine without a GPU."""
    return env.get("gpu") or cpu_name(env)


def paper_set(n, d):
    """Returns the name of the paper's real data set of n rows (any number if None) and d dimensions, or None."""
    return next((name for name, shape in PUBLISHED["sets"].items() if shape[1] == d and n in (None, shape[0])), None)


def published(kind, name, selectivity):
    """Returns a figure of the paper for one of its real data sets, or None."""
    return PUBLISHED[kind].get(name, {}).get(str(selectivity))


def tflops(n, d, runs):
    """Returns the rate of a join of n rows of d dimensions, from the median of the runs in seconds."""
    return 2.0 * n * n * d / statistics.median(runs) * 1e-12


def digits(value, count=3):
    """Returns a number with `count` significant digits, without an exponent from 1e-3 to 1e6."""
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


def table(head, rows):
    """Returns a table in Markdown. Columns without any value are omitted."""
    used = [i for i in range(len(head)) if any(row[i] not in ("", None) for row in rows)]
    head, rows = [head[i] for i in used], [[row[i] for i in used] for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def measured_at(result):
    """Returns a sentence with the revision and the day of a result file."""
    env = result["environment"]
    return f"Revision {env['revision']}, {env['date']}."


def in_line(env):
    """Returns whether vectors were stored in line although CREATE TABLE stores those of 500 dimensions and more out of line.

    Results without "storage" are older than the benchmarks that store tables as CREATE TABLE does.
    """
    return env.get("storage", "PLAIN") in ("PLAIN", "MAIN")


def stored(env):
    """Returns a sentence on the storage, to follow another one; "" if it is that of CREATE TABLE."""
    return f" All vectors were stored [in line]({IN_LINE})." if in_line(env) else ""


def shorter(svg):
    """Returns the same picture in fewer bytes: without groups that only have a name, and in hundredths of a point."""
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
        # ticks and markers often repeat the style of the shape that they use
        if element.get("style") and element.get("style") == styles.get(element.get(f"{{{names['xlink']}}}href")):
            del element.attrib["style"]
        for name, value in element.attrib.items():
            element.attrib[name] = re.sub(r"-?\d+\.\d+", hundredths, " ".join(value.split()))
        # text with powers of ten has no generic font family
        if element.get("style", "").endswith("'DejaVu Sans'"):
            element.attrib["style"] += ", sans-serif"
        if (element.get("transform") or "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        element.text, element.tail = (element.text or "").strip() or None, "\n"
    return ElementTree.tostring(root, encoding="unicode")


def save(figure, path):
    """Writes SVG with text as text. The same data give the same bytes."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", bbox_inches="tight",
                   metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    Path(path).write_text(shorter(drawn.getvalue()), encoding="utf-8")


# Medium tones and a transparent background are readable on a white and on a dark page.
TEXT_COLOUR = "#737b84"
COLOURS = ("#3b82c4", "#d9742b", "#3a9b5c", "#d1495b", "#9167bd", "#2a9d9d", "#a5724a", "#c964a8", "#94942f", "#737b84")


def figure(columns=1, width=5.5, height=3.8, **options):
    """Returns a figure and its axes in one row, to be drawn without a display. Sizes are in inches."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    matplotlib.rcParams.update({
        "font.size": 9, "font.sans-serif": ["DejaVu Sans"], "svg.fonttype": "none", "svg.hashsalt": "fasted",
        "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
        "axes.grid": True, "grid.alpha": 0.3, "grid.color": TEXT_COLOUR, "axes.spines.top": False, "axes.spines.right": False,
        "text.color": TEXT_COLOUR, "axes.edgecolor": TEXT_COLOUR, "axes.labelcolor": TEXT_COLOUR, "axes.titlecolor": TEXT_COLOUR,
        "xtick.color": TEXT_COLOUR, "ytick.color": TEXT_COLOUR, "axes.prop_cycle": matplotlib.cycler(color=COLOURS)})
    return matplotlib.pyplot.subplots(1, columns, figsize=(width * columns, height), squeeze=False, **options)
