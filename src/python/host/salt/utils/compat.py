"""Helpers of older modules."""
import importlib

reload = importlib.reload


def pack_dunder(name):
    """Nothing to do: every module has `__utils__`."""


def cmp(x, y):
    """-1, 0 or 1; maps are only the same or not."""
    maps = isinstance(x, dict) and isinstance(y, dict)
    return -(x != y) if maps else (x > y) - (x < y)
