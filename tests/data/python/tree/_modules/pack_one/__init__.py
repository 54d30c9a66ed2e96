"""A package with relative imports."""
from . import inner
from .inner import twice

CONSTANT = inner.CONSTANT


def run(value=2):
    return twice(value) + CONSTANT


def names():
    return [inner.__name__.rpartition(".")[2], __name__.rpartition(".")[2]]
