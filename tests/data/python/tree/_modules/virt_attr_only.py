"""`__virtualname__` without `__virtual__`."""

__virtualname__ = "virt_only"


def run():
    return "virt_only"
