"""Argument lists of functions, without the cost of importing `inspect`."""
import functools

VARARGS, KEYWORDS = 0x04, 0x08


def signature(code):
    """Names, defaults of the last ones, whether there are `*args` and `**kwargs`."""
    bound = ()
    if isinstance(code, functools.partial):
        bound, code = code.args, code.func
    # What `functools.wraps` covers counts.
    for _ in range(100):
        code = getattr(code, "__wrapped__", code)
    inner = getattr(code, "__code__", None)
    if inner is None:
        return [], [], True, True
    positional = inner.co_argcount
    # Those without a name for callers are left out, as in Salt.
    first = max(len(bound), getattr(inner, "co_posonlyargcount", 0))
    names = list(inner.co_varnames[first:positional])
    defaults = list(code.__defaults__ or ())[-len(names) :] if names else []
    only = inner.co_varnames[positional : positional + inner.co_kwonlyargcount]
    for name in only:
        names.append(name)
        if name in (code.__kwdefaults__ or {}):
            defaults.append(code.__kwdefaults__[name])
    return names, defaults, bool(inner.co_flags & VARARGS), bool(inner.co_flags & KEYWORDS)
