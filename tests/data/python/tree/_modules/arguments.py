"""How arguments arrive."""


def types(*args):
    return [[type(one).__name__, repr(one)] for one in args]


def keywords(**kwargs):
    return {key: repr(value) for key, value in sorted(kwargs.items()) if not key.startswith("__")}


def pub(**kwargs):
    """The keys that Salt adds."""
    return sorted(key for key in kwargs if key.startswith("__"))


def pub_values(**kwargs):
    return {key: kwargs.get("__pub_" + key) for key in ("fun", "arg", "tgt", "tgt_type", "ret", "user")}


def named(first, second=2, third="three"):
    return [first, second, third]


def only(first, *, second, third=3):
    return [first, second, third]


def positional(first, /, second=2):
    return [first, second]


def rest(first, *rest, **kwargs):
    return [first, list(rest), sorted(key for key in kwargs if not key.startswith("__"))]


def mutable(value, seen=[]):
    seen.append(value)
    return seen


def defaults(a=None, b=True, c=(), d={}, e=1.5, f="text", g=b"bytes"):
    return [a, b, list(c), d, e, f]


def name(name, fun=None, arg=None, tgt=None):
    """Arguments called like those of the command line."""
    return [name, fun, arg, tgt]


def echo(value):
    return value
