"""A package of states."""
from .parts import comment


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": comment(name)}
