"""Globals of functions."""
import contextlib


@contextlib.contextmanager
def func_globals_inject(func, **overrides):
    """Other globals for a function while the block runs."""
    space = func.__globals__
    before = {name: space[name] for name in overrides if name in space}
    space.update(overrides)
    try:
        yield
    finally:
        for name in overrides:
            del space[name]
        space.update(before)
