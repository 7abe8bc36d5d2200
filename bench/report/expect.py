"""The first screen of the page: what a reader may expect of a case of their own."""
import statistics

import on_cpu
from chosen import OURS, largest, measured, timed
from page import digits, table

S = 64


def lines(measurements, ours, machine):
    for m in timed(largest(measurements), method=ours, output="count", selectivity=S):
        runs = m["seconds"]
        yield [m["rows"], m["dimensions"], machine, digits(statistics.median(runs["first"])),
               digits(statistics.median(runs["warm"])) if runs.get("warm") else ""]


def section(results):
    rows = []
    for found in on_cpu.machines(results):
        rows += lines(found["measurements"], on_cpu.OURS, f"{found['environment']['processors']} processors, no GPU")
    rows += lines(measured(results), OURS, "NVIDIA H200")
    if not rows:
        return None
    rows.sort(key=lambda row: (row[2], row[0] ** 2 * row[1]))
    return "\n".join([
        "## What to expect", "",
        f"Seconds from the statement to the count, with {S} neighbours a row on average. Beyond a few ten thousand rows the time grows with "
        "the square of the rows and with the dimensions; more neighbours and rows that leave the server add to it.", "",
        table(["rows", "dimensions", "machine", "first call of a session, s", "later, s"], rows), "",
        results.picture("real_world", "Seconds from the statement to the count, and of each method to all pairs"), "",
        results.picture("throughput", "TFLOPS over rows, a line for each number of dimensions"), "",
        "Below: [in short](#in-short), [end to end](#end-to-end-inside-postgresql), [beside what people use](#beside-what-people-use), "
        "[where we lose](#where-we-lose), [on a CPU](#on-a-cpu), and the paper's tables and figures.", "", "## In short", ""])
