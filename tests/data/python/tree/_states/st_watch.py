"""`mod_watch`."""


def running(name, word="run"):
    return {"name": name, "result": True, "changes": {}, "comment": "running: %s" % word}


def other(name):
    return {"name": name, "result": True, "changes": {}, "comment": "other"}


def mod_watch(name, sfun=None, word="run", **kwargs):
    ret = {"name": name, "result": True, "changes": {name: "restarted"}, "comment": "watched by %s: %s" % (sfun, word)}
    ret["comment"] += " " + ",".join(sorted(key for key in kwargs if not key.startswith("__") and key not in ("order", "state", "fun")))
    return ret
