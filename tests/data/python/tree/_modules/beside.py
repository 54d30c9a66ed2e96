"""Reads a file that lies beside it."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def run():
    path = os.path.join(HERE, "beside.txt")
    if not os.path.exists(path):
        return "not there"
    with open(path) as stream:
        return stream.read().strip()


def names():
    return [os.path.basename(HERE), "beside.py" in os.listdir(HERE), __file__.endswith(".py"), __package__ is not None]


def loaded():
    """The module's own place among Python's."""
    import sys

    return [sys.modules[__name__].__name__, __name__, __spec__ is not None]
