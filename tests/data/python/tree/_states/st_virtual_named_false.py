"""One that has a name and is not there."""

__virtualname__ = "st_gone"


def __virtual__():
    if "corpus.absent" in __salt__:
        return __virtualname__
    return False, "corpus.absent is not available"


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": "never"}
