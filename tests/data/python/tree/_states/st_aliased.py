"""`__func_alias__` in states."""

__func_alias__ = {"set_": "set"}


def set_(name, value=None):
    return {"name": name, "result": True, "changes": {}, "comment": "set to %s" % value}
