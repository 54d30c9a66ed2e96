"""Arguments of states."""


def _told(name, value):
    return {"name": name, "result": True, "changes": {}, "comment": repr(value)}


def required(name, must):
    return _told(name, must)


def optional(name, a=1, b=None, **kwargs):
    return _told(name, [a, b, sorted(key for key in kwargs if not key.startswith("__"))])


def all_keys(name, **kwargs):
    return _told(name, sorted(kwargs))


def no_name(value=3):
    return _told("none", value)


def only(name, *, must, may=2):
    return _told(name, [must, may])


def types(name, **kwargs):
    return _told(name, {key: type(value).__name__ for key, value in sorted(kwargs.items()) if key.startswith("a")})


def engine(name, order=None, require=None, failhard=None, runas=None, timeout=None, fun=None, state=None):
    """Arguments with names that the engine knows."""
    return _told(name, [type(order).__name__, require, failhard, runas, timeout, fun, state])


def stars(name, *args, **kwargs):
    return _told(name, [list(args), sorted(key for key in kwargs if key.startswith("own"))])


def listing(name, names=None, listed=None):
    return _told(name, [names, listed])


def mapping(name, mapping=None):
    return _told(name, mapping)
