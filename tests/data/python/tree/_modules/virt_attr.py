"""`__virtualname__` and `__virtual__` that returns it: the usual idiom."""

__virtualname__ = "virt_named"


def __virtual__():
    return __virtualname__


def run():
    return "virt_named"
