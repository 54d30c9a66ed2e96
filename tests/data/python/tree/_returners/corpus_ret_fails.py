"""Fails."""


def returner(ret):
    raise RuntimeError("cannot return")
