"""`__virtualname__`, and `__virtual__` says only yes."""

__virtualname__ = "virt_named_true"


def __virtual__():
    return True


def run():
    return "virt_named_true"
