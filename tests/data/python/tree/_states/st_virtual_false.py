"""One that is not there."""


def __virtual__():
    return False, "not on this system"


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": "never"}
