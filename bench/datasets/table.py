#!/usr/bin/env python3
"""Write sentences and their vectors in the text format of COPY: id, sentence, real[].

    bench/datasets/table.py NAME [ROWS] | psql -c "COPY sentences FROM STDIN"
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import datasets  # noqa: E402


def lines(sentences, rows):
    """Yields one line for each row.  A sentence can contain backslashes, but neither tabs nor newlines."""
    for number, (sentence, row) in enumerate(zip(sentences, rows), 1):
        sentence = sentence.replace("\\", "\\\\")
        yield f"{number}\t{sentence}\t{{{','.join(map(str, row.tolist()))}}}\n"


def main():
    name = sys.argv[1]
    try:
        rows = datasets.load(name, int(sys.argv[2]) if len(sys.argv) > 2 else None)
        sentences = datasets.path_of(name).with_suffix(".txt").read_text().split("\n")
        sys.stdout.writelines(lines(sentences, rows))
    except (datasets.MissingFile, ValueError) as error:
        sys.exit(f"table.py: {error}")


if __name__ == "__main__":
    main()
