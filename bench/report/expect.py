"""The first screen of the page: times that a reader can expect, the two plots, and the main findings."""
import math
import statistics

import on_cpu
import over_rows
import pruning
import real_world
import throughput
from chosen import LARGE, OURS, OURS_ON_CPU, S, dimensions, largest, measured, runs, timed
from page import IN_LINE, cpu_name, digits, table


def lines(measurements, ours, name):
    """Yields the lines of one machine: of each number of dimensions the largest number of rows, and all of LARGE rows or more."""
    found = timed(largest(measurements), method=ours, output="count", selectivity=S)
    for m in found:
        if m["rows"] < LARGE and any(m["dimensions"] == other["dimensions"] and m["rows"] < other["rows"] for other in found):
            continue
        runs = m["seconds"]
        yield [name, m["rows"], dimensions(m), digits(statistics.median(runs["first"])),
               digits(statistics.median(runs["warm"])) if runs.get("warm") else ""]


def cores(name):
    """Returns the number of CPU cores in the name of the hardware; infinity for a GPU."""
    first = name.split()[0]
    return int(first) if first.isdigit() else math.inf


def section(results):
    rows = [line for machine in on_cpu.machines(results)
            for line in lines(measured(machine), OURS_ON_CPU, cpu_name(on_cpu.environment(machine)))]
    rows += lines(measured(results), OURS_ON_CPU, cpu_name(runs(results)[-1]["environment"])) if runs(results) else []
    rows += lines(measured(results), OURS, "NVIDIA H200")
    if not rows:
        return None
    rows.sort(key=lambda row: (cores(row[0]), row[0], row[1] ** 2 * int(str(row[2]).split(",")[0])))
    findings = [line for module in (real_world, on_cpu, throughput, pruning) for line in module.headlines(results)]
    return "\n".join([
        "## What to expect", "",
        f"Seconds from the statement `SELECT count(*)` over a join of a table with itself to its result, with S = {S}:", "",
        table(["hardware", "rows", "dimensions", "first call, s", "later calls, s"], rows), "",
        f"PostgreSQL stores vectors of more than about 500 dimensions out of line, unless they are [stored in line]({IN_LINE}). "
        "The time of a large table grows with the number of dimensions, and at most with the square of the number of rows. Sending the pairs "
        "to the client takes additional time.", "",
        *over_rows.lines(results), real_world.picture(results), "",
        "In short:", "", *findings, ""])
