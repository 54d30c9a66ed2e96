"""`__virtual__` fails."""


def __virtual__():
    raise RuntimeError("asked too much")


def run():
    return "never"
