"""Grains of users' modules."""
from halite.signature import signature
from halite.values import plain
from halite.wire import Closed


def decoded(value):
    """Bytes in grains are text, where they can be."""
    if isinstance(value, dict):
        return {decoded(key): decoded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return value


def collect(loader):
    """The grains of all public functions, in the order of files; a function may see those before it."""
    found = {}
    kind = loader.kinds["grains"]
    kind.all()
    for name in sorted(kind.functions):
        function = kind.functions[name]
        args, defaults, _, _ = signature(function.code)
        given = {}
        if "grains" in args:
            given["grains"] = loader.grains
        if "proxy" in args:
            given["proxy"] = None
        try:
            values = function.code(**given)
        except Closed:
            raise
        except BaseException as error:
            from halite import errors

            loader.wire.tell(
                "log", "error", "halite", "%s: the grains of %s are ignored: %s: %s\n%s"
                % (function.path, function.name, errors.class_name(type(error)), errors.text_of(error), errors.trace(error)),
            )
            continue
        if isinstance(values, dict):
            values = decoded(plain(values))
            found.update(values)
            loader.grains.update(values)
    return found
