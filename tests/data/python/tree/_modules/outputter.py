"""Says how its returns are shown."""

__outputter__ = {"text": "txt", "raw": "pprint", "high": "highstate"}


def text():
    return "line one\nline two"


def raw():
    return {"a": [1, 2]}


def other():
    return {"b": "two"}
