"""The bottom: it has no `__salt__` of its own."""
from . import LEVEL


def reach(who):
    return "%s reached %s" % (who, LEVEL)


def look():
    return "__salt__" in globals()
