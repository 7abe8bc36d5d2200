"""Split package descriptions into distinct sentences."""
import re

LEAST, MOST = 5, 40             # minimum and maximum number of words of a sentence
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def paragraphs(description):
    """Yields the synopsis, the paragraphs and the list items of a package description, each as one line."""
    synopsis, *lines = description.split("\n")
    yield synopsis.strip()
    paragraph = []
    for line in [*lines, " ."]:
        text = line.strip()
        item = re.match(r"[-*+o]\s+", text)
        if text == "." or item or line.startswith("  "):
            yield " ".join(paragraph)
            paragraph = []
        if text != ".":
            paragraph.append(text[item.end():] if item else text)


def sentences(descriptions):
    """Returns the distinct sentences of LEAST to MOST words, in the order of their first occurrence."""
    found = {}
    for description in descriptions:
        for paragraph in paragraphs(description):
            for sentence in END.split(paragraph):
                if LEAST <= len(sentence.split()) <= MOST:
                    found.setdefault(sentence)
    return list(found)
