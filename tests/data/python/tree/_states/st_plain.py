"""The usual state."""


def present(name, value="v"):
    """Makes something present."""
    return {"name": name, "result": True, "changes": {}, "comment": "%s is %s" % (name, value)}


def changed(name):
    return {"name": name, "result": True, "changes": {"old": "a", "new": "b"}, "comment": "changed"}


def failed(name):
    return {"name": name, "result": False, "changes": {}, "comment": "failed on purpose"}


def _private(name):
    return present(name)
