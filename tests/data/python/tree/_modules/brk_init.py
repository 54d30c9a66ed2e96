"""`__init__` fails."""


def __init__(opts):
    raise RuntimeError("init failed")


def run():
    return "run without init"
