"""`__virtual__` returns something else than `__virtualname__`."""

__virtualname__ = "virt_said"


def __virtual__():
    return "virt_meant"


def run():
    return "virt_meant"
