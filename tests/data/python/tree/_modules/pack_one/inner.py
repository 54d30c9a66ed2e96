"""Not a module of its own."""

CONSTANT = 100


def twice(value):
    return value * 2


def unseen():
    return "unseen"
