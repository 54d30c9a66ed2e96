"""Stands before the function."""


def execute(opts, data, func, args, kwargs):
    if data["fun"] == "shape_plain.greet":
        return "executed: %s" % func(*args, **kwargs)
    return None
