"""The same end to end on machines without a GPU, where the CPU engine is the default."""
import chosen
import real_world
from page import Results, digits, measured_at

OURS = "fasted cpu"


def machines(results):
    """Results of machines without a GPU that ran bench/real_world/run.py --device cpu."""
    for folder in sorted(results.folder.parent.iterdir()):
        other = Results(folder.name)
        found = other["real_world"] if folder != results.folder else None
        if found and "gpu" not in found["environment"]:
            yield found


def headlines(results):
    """How much longer others take; but for the approximate index, which is no join of all pairs."""
    for found in machines(results):
        measurements = found["measurements"]
        times = [chosen.ratio(measurements, m, OURS) for data, count in chosen.shapes(measurements)
                 for name, m in chosen.peers(measurements, data, count) if name not in (OURS, "pgvector HNSW")]
        times = [one for one in times if one]
        if not times:
            continue
        env = found["environment"]
        yield (f"- Without a GPU ({env['processor']}, {env['processors']} processors), what people use takes {digits(min(times))} to "
               f"{digits(max(times))} times as long as the join inside PostgreSQL.")


def section(results):
    text = []
    for found in machines(results):
        env = found["environment"]
        measurements = found["measurements"]
        text += [f"### {env['processor']}, {env['processors']} processors", "",
                 f"{env['memory_gib']} GiB, {env['system']}, PostgreSQL {env['postgresql']}. " + measured_at(found), "",
                 "`SELECT count(*)`:", "", real_world.ours_table(measurements, OURS), "",
                 "All rows in the client's hands, beside what people use:", "", real_world.peers_table(measurements, OURS), ""]
        missing = real_world.without_times(measurements)
        if missing:
            text += ["Not measured:", "", *missing, ""]
    if not text:
        return None
    return "\n".join(["## On a CPU", "", "Where no GPU answers, the CPU engine does the work. What the tables show is as above.", "", *text])
