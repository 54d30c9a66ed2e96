"""A part of it."""


def comment(name):
    return "from a part: " + name
