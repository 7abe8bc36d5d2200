"""Sentences of texts, each once."""
import re

LEAST, MOST = 5, 40             # words of a sentence
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def paragraphs(description):
    """The synopsis, the paragraphs and the items of lists of a package's description, each in one line."""
    synopsis, *lines = description.split("\n")
    yield synopsis.strip()
    held = []
    for line in [*lines, " ."]:
        text = line.strip()
        item = re.match(r"[-*+o]\s+", text)
        if text == "." or item or line.startswith("  "):
            yield " ".join(held)
            held = []
        if text != ".":
            held.append(text[item.end():] if item else text)


def sentences(descriptions):
    """Every sentence of a usual length, once, in the order in which they come."""
    found = {}
    for description in descriptions:
        for paragraph in paragraphs(description):
            for sentence in END.split(paragraph):
                if LEAST <= len(sentence.split()) <= MOST:
                    found.setdefault(sentence)
    return list(found)
