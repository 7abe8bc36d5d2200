#!/usr/bin/env python3
"""Reports the errors of a run of sqlsmith, and fails if the extension caused an internal error.

    report.py DIRECTORY

DIRECTORY is that of test/setup/sqlsmith.  Prints the number of queries, the errors by SQLSTATE,
and the number of calls of each function of the extension.  It fails if a server process
crashed, if the extension raised an internal error (SQLSTATE XX000), or if a query with another
internal error runs without it once the plans of the extension are disabled.
"""

import collections
import csv
import glob
import os
import re
import subprocess
import sys

csv.field_size_limit(1 << 30)
SEVERITY, SQLSTATE, MESSAGE, QUERY, LOCATION = 11, 12, 13, 19, 21


def psql(sql, user, **settings):
    """Runs SQL statements in one session; returns their output and messages."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return subprocess.run(["psql", "-X", "-A", "-t", "-v", "VERBOSITY=verbose", "-U", user, "-c", sql],
                          env={**os.environ, "PGOPTIONS": options}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False).stdout


def functions_of_sources():
    """Returns the pairs of file name and function name of the extension's sources."""
    pairs = set()
    for path in glob.glob("src/**/*.[ch]", recursive=True):
        with open(path, encoding="utf-8") as source:
            pairs |= {(os.path.basename(path), name)
                      for name in re.findall(r"^(\w+)\(", source.read(), re.MULTILINE)}
    return pairs


def plain_error(query):
    """Checks that the query also raises an internal error without the extension's plans."""
    return "XX000" in psql("BEGIN; " + query + "; ROLLBACK", "smith", statement_timeout="300s",
                           **{"fasted.join_node": "off", "fasted.scan_node": "off"})


def main():
    """Prints the report."""
    directory = sys.argv[1]
    queries = 0
    for path in glob.glob(directory + "/smith/*"):
        with open(path, encoding="utf-8", errors="replace") as output:
            # a character for each query, such as "e" after an error
            queries += sum(map(len, re.findall(r"^[.a-zA-Z]+$", output.read().partition("indexes...done.")[2],
                                               re.MULTILINE)))

    failures = []
    states = collections.Counter()
    internal = {}
    ours = functions_of_sources()
    for path in glob.glob(directory + "/server_log/*.csv"):
        with open(path, encoding="utf-8", errors="replace", newline="") as log:
            for row in csv.reader(log):
                if len(row) <= LOCATION:
                    continue
                if "was terminated by signal" in row[MESSAGE] or row[SEVERITY] == "PANIC":
                    failures.append(f"{row[MESSAGE]}\n{row[14]}")
                elif row[SEVERITY] in ("ERROR", "FATAL"):
                    states[row[SQLSTATE]] += 1
                    if row[SQLSTATE] == "XX000":
                        internal.setdefault(row[LOCATION], (row[MESSAGE], row[QUERY]))
    for path in [directory + "/log"] + glob.glob(directory + "/server_log/*.log"):
        with open(path, encoding="utf-8", errors="replace") as log:
            failures += [line for line in log if line.startswith("TRAP:")]

    for location, (message, query) in internal.items():
        function, _, file = location.partition(", ")
        if (file.rpartition(":")[0], function) in ours or not plain_error(query):
            failures.append(f"XX000: {message}\n{location}\n{query}")
        else:
            print(f"internal error of PostgreSQL: {message} ({location})")

    print(f"{queries} queries; errors by SQLSTATE: " +
          ", ".join(f"{state} {count}" for state, count in states.most_common()))
    print("calls of the extension's functions:")
    print(psql("SELECT name || ' ' || sum(calls) FROM (SELECT calls, regexp_replace(funcname, '_[0-9]+$', '') AS name "
               "FROM pg_stat_user_functions) AS f GROUP BY name ORDER BY sum(calls) DESC", "postgres"))
    if queries == 0:
        failures.append("sqlsmith ran no query")
    for failure in failures:
        print("FAIL: " + failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
