"""The same measurements on machines without a GPU."""
import real_world
from chosen import FILES, HNSW, OURS_ON_CPU, measured, ratios, runs, values
from page import cpu_name, digits, machines_of


def machines(results):
    """Returns the Results of bench/real_world/run.py --device cpu, of all machines without a GPU."""
    return [machine for machine in machines_of(results, *FILES) if "gpu" not in runs(machine)[-1]["environment"]]


def newest(results):
    """Returns the machine whose measurements are the newest, or None."""
    return max(machines(results), key=lambda machine: runs(machine)[-1]["environment"]["date"], default=None)


def environment(machine):
    return runs(machine)[-1]["environment"]


def headlines(results):
    """Yields the ratios of other programs that find all pairs, on each machine."""
    for machine in machines(results):
        times = values(ratios(measured(machine), OURS_ON_CPU), HNSW)
        if times:
            yield (f"- On {cpu_name(environment(machine))}, with all pairs sent to the client, other programs take {digits(min(times))} to "
                   f"{digits(max(times))} times as long as fasted.")


def section(results):
    text = []
    for machine in machines(results):
        env, measurements = environment(machine), measured(machine)
        others = real_world.other_selectivities(measurements, OURS_ON_CPU)
        text += [f"### {cpu_name(env)}", "",
                 f"{env['memory_gib']} GiB, {env['system']}, PostgreSQL {env['postgresql'].split()[0]}. {real_world.when(machine)}", "",
                 real_world.ours_table(measurements, OURS_ON_CPU), "", *([others, ""] if others else []),
                 real_world.beside(measurements, OURS_ON_CPU), "", *real_world.not_measured(measurements)]
    if not text:
        return None
    return "\n".join(["## On a CPU", "",
                      "Machines without a GPU use the CPU engine, and all programs use all cores. The first table of each machine has the times of "
                      "`SELECT count(*)`. The second has the times until all pairs are in the memory of the client.", "", *text])
