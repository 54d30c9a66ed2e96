"""A renamed state module."""

__virtualname__ = "st_named"


def __virtual__():
    return __virtualname__


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": "st_named"}
