"""A file name that is no name in Python."""


def run():
    return "dashed"
