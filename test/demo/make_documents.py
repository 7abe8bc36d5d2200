#!/usr/bin/env python3
"""Makes documents.tsv from the HTML pages of the Debian package postgresql-doc-15 (README.md).

    test/demo/make_documents.py HTML_FOLDER WHEELS_FOLDER >test/demo/documents.tsv

A chunk describes an option of a program, a server setting, or a term of the glossary.
WHEELS_FOLDER receives the wheels that bench/datasets/wheels.txt names.
"""
import datetime
import hashlib
import json
import re
import sys
import uuid
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from datasets.embeddings import WordLlama  # noqa: E402

# The last page is that of vacuumdb, which the nightly job of the tutorial inserts.
PAGES = {"glossary": ["glossary"], "settings": ["runtime-config-*"], "programs": ["pgbench", "pgupgrade", "app-*"]}
XHTML = "{http://www.w3.org/1999/xhtml}"
LEAST, MOST = 40, 200           # characters of a content
DIMENSIONS = 64                 # the model supports truncation to 64 dimensions


def text(element):
    """The text of an element, in one line and in ASCII."""
    line = " ".join("".join(element.itertext()).split())
    return re.sub("[\u201c\u201d]", '"', line).encode("ascii", "ignore").decode()


def items(page):
    """Section and content of each item of the page's lists.  A content is the leading sentences of up to MOST characters."""
    for definitions in page.iter(f"{XHTML}dl"):
        sections = []
        for element in definitions if definitions.get("class") != "toc" else ():
            if element.tag == f"{XHTML}dt":
                sections += [text(term) for term in element.findall(f"{XHTML}span")]
                continue
            paragraph = element.find(f".//{XHTML}p")
            content = "" if paragraph is None else text(paragraph)
            ends = [match.start() for match in re.finditer(r"(?<=[.!?]) |$", content)]
            yield ", ".join(sections), content[:max([end for end in ends if end <= MOST], default=0)]
            sections = []


def chunks(folder):
    """All chunks: collection, source, section, content.  Of a page's texts that have the same words, the first is used."""
    for collection, pattern in ((name, pattern) for name, patterns in PAGES.items() for pattern in patterns):
        for path in sorted(folder.glob(f"{pattern}.html")):
            page, seen = ElementTree.parse(path).getroot(), set()
            source = text(page.find(f"{XHTML}head/{XHTML}title")).split(".")[-1].strip()
            for section, content in items(page):
                words = tuple(sorted(re.findall(r"\w+", content.lower())))
                if len(content) >= LEAST and words not in seen:
                    seen.add(words)
                    yield collection, source, section, content


def main(html, wheels):
    """Prints the chunks in the format of COPY.  Tenants alternate; one chunk was created every hour."""
    found = list(chunks(Path(html)))
    rows = WordLlama(Path(wheels)).rows([chunk[-1] for chunk in found])[:, :DIMENSIONS].astype(numpy.float64)
    rows = numpy.rint(127 * rows / numpy.linalg.norm(rows, axis=1, keepdims=True)).astype(int)
    for number, ((collection, source, section, content), row) in enumerate(zip(found, rows), 1):
        created = datetime.datetime(2026, 1, 1) + number * datetime.timedelta(hours=1)
        print("\t".join((str(uuid.UUID(hashlib.md5(b"%d" % number).hexdigest())), ("acme", "globex")[number % 2], collection,
                         source, content, json.dumps({"section": section}), f"{created:%F %H:%MZ}",
                         "{" + ",".join(map(str, row)) + "}")).replace("\\", "\\\\"))


if __name__ == "__main__":
    main(*sys.argv[1:])
