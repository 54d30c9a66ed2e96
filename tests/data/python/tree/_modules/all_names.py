"""`__all__` is used like `__load__`."""

__all__ = ["one"]


def one():
    return 1


def two():
    return 2
