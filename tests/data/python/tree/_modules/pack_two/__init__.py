"""A package with a package, and a virtual name."""
from .deep.bottom import reach

__virtualname__ = "pack_named"


def __virtual__():
    return __virtualname__


def run():
    return reach("pack_two")


def dunders():
    from .deep import bottom

    return bottom.look()
