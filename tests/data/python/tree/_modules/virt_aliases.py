"""One module with more names."""

__virtualname__ = "alias_first"
__virtual_aliases__ = ("alias_second", "alias_third")


def __virtual__():
    return __virtualname__


def run():
    return "aliased"
