"""Takes the place of a native module: same file name."""


def get(key, default="overridden"):
    return "%s is %s" % (key, default)


def corpus_only():
    return __salt__["environ.get"]("PATH")


def asks():
    return {name: name in __salt__ for name in ("environ.get", "environ.corpus_only", "environ.has_value", "environ.setval")}
