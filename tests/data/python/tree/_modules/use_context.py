"""The other half of `use_dunders`."""


def shared():
    return __context__.get("corpus_shared", "not shared")


def option(name):
    return __opts__.get(name, "not there")
