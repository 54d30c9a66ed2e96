"""Succeeds the second time."""
SEEN = {}


def second(name):
    SEEN[name] = SEEN.get(name, 0) + 1
    good = SEEN[name] > 1
    return {"name": name, "result": good, "changes": {}, "comment": "attempt %d" % SEEN[name]}
