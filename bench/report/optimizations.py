"""The leave-one-out study (section 4.3 of the paper, Table 6)."""
import statistics

from page import PUBLISHED, digits, measured_at, seconds, table, tflops


def section(results):
    found = results["optimizations"]
    if found is None:
        return None
    text = ["## Optimisations, left out one at a time", "",
            "The paper's design (mma.sync, FP16-32, the whole square of distances) with one of its optimisations left out, and "
            "then what is past the paper; random rows without hits. " + measured_at(found), ""]
    published = PUBLISHED["optimizations"]
    for d in sorted({m["d"] for m in found["measurements"]}, reverse=True):
        here = [m for m in found["measurements"] if m["d"] == d]
        every = next(m for m in here if m["variant"].startswith("all of"))
        whole = statistics.median(every["seconds"])
        rows = []
        for m in here:
            median = statistics.median(m["seconds"])
            row = [m["variant"], digits(1000 * median), digits(tflops(m["n"], d, m["seconds"])), f"{whole / median:.2f}"]
            if d == 4096:
                paper = published.get(m["variant"])
                row += [digits(paper), f"{paper / published[every['variant']]:.2f}" if paper else ""]
            rows.append(row)
        head = ["variant", "ms", "TFLOPS", "of all"]
        text += [f"n = {here[0]['n']}, d = {d}; all optimisations {seconds(every['seconds'])} s:", "",
                 table(head + ["paper, A100", "of all, paper"] if d == 4096 else head, rows), ""]
    text.append("What counts has shifted: the layout without swizzling costs most now, for the tensor cores of an H200 take "
                "operands faster; and the greatest single step is the one past the paper, computing only the upper triangle.\n")
    return "\n".join(text)
