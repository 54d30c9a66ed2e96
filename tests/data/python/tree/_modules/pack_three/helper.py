"""A part."""


def twice(value):
    return value * 2
