"""Decorated states."""
import functools


def _with_ret(function):
    @functools.wraps(function)
    def wrapper(name, *args, **kwargs):
        ret = {"name": name, "result": True, "changes": {}, "comment": ""}
        ret["comment"] = function(name, *args, **kwargs)
        return ret

    return wrapper


@_with_ret
def run(name, word="w"):
    return "decorated " + word
