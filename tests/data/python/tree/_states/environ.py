"""In the place of the native one."""


def setenv(name, value=""):
    return {"name": name, "result": True, "changes": {}, "comment": "setenv of the corpus: %s" % value}
