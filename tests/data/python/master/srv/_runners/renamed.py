"""A runner with another name, and one that does not want to be there."""
__virtualname__ = "depot"


def __virtual__():
    return __virtualname__


def where():
    return "here"
