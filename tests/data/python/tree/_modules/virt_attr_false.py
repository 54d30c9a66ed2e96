"""A named module that says no: it is asked for by its name."""

__virtualname__ = "virt_gone"


def __virtual__():
    return (False, "virt_gone is gone")


def run():
    return "never"
