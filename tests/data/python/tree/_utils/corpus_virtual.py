"""Another name."""

__virtualname__ = "corpus_tools2"


def __virtual__():
    return __virtualname__


def run():
    return "renamed"
