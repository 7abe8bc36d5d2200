"""What the sections of the report share: results, numbers, tables, plots."""
import json
from pathlib import Path

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
        """Where a plot of this machine goes, without the suffix."""
        return self.folder / name

    def picture(self, name, text):
        """Markdown that shows a plot in doc/."""
        return f"![{text}](../bench/results/{self.machine}/{name}.svg)"


def paper_set(n, d):
    """The name of the paper's real set of this shape, or of these dimensions where n is None."""
    return next((name for name, shape in PUBLISHED["sets"].items() if shape[1] == d and n in (None, shape[0])), None)


def published(kind, name, selectivity):
    """A number of the paper for one of its real sets, or None."""
    return PUBLISHED[kind].get(name, {}).get(str(selectivity))


def tflops(n, d, seconds):
    return 2.0 * n * n * d / seconds * 1e-12


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


def seconds(spread):
    """Median and range of a time."""
    if len(spread["all"]) == 1:
        return f"{digits(spread['median'])} (once)"
    return f"{digits(spread['median'])} ({digits(spread['least'])} to {digits(spread['most'])})"


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


def save(figure, path):
    """PNG and SVG, the same bytes for the same data."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "fasted"
    figure.savefig(f"{path}.svg", bbox_inches="tight", metadata={"Date": None})
    figure.savefig(f"{path}.png", bbox_inches="tight", dpi=120, metadata={"Software": None})


def figure(columns=1, width=5.5, height=3.8, **options):
    """A figure with one row of axes, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    matplotlib.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
                                "axes.spines.right": False, "legend.frameon": False})
    return matplotlib.pyplot.subplots(1, columns, figsize=(width * columns, height), squeeze=False, **options)
