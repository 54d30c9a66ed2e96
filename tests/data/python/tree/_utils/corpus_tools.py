"""Utility functions."""


def join(*parts, sep="-"):
    return sep.join(parts)


def _private():
    return "never"
