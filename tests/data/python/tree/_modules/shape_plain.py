"""The simplest module: functions, a private one, imported names."""
import os
from os.path import basename
from collections import OrderedDict

LIMIT = 3


def greet(name="world"):
    """Says hello."""
    return "hello " + name


def add(a, b):
    return a + b


def nothing():
    pass


def both(*args, **kwargs):
    kwargs = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    return {"args": list(args), "kwargs": kwargs}


def here():
    return os.path.basename(__file__), __name__.rpartition(".")[2]


def _private():
    return "private"


def through_private():
    return _private()


class Thing:
    """Not a function of the module."""

    def __call__(self):
        return "called"


thing = Thing()
