"""Adds to the native module `test`."""

__virtualname__ = "test"


def __virtual__():
    return True


def corpus_state(name):
    return {"name": name, "result": True, "changes": {}, "comment": "added"}


def nop(name, **kwargs):
    return {"name": name, "result": True, "changes": {}, "comment": "nop of the corpus"}
