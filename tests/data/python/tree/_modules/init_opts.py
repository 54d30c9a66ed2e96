"""`__init__` is called once with the options."""

SEEN = {}


def __init__(opts):
    SEEN["id"] = opts["id"]
    SEEN["times"] = SEEN.get("times", 0) + 1
    SEEN["same"] = opts is not None and opts.get("id") == __opts__.get("id")


def seen():
    return SEEN
