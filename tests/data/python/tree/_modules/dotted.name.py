"""A dot in the name."""


def run():
    return "dotted"
