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


def names(loader, stem):
    """The public functions of a file."""
    kind = loader.kinds["grains"]
    kind.load(stem)
    return [name for name, function in kind.functions.items() if function.stem == stem]


def call(loader, stem, name):
    """The grains of a function; it may see those before it."""
    kind = loader.kinds["grains"]
    # This process may be another one than that which was asked for the names.
    kind.load(stem)
    function = kind.functions[name]
    args, _, _, _ = signature(function.code)
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
        return {}
    return decoded(plain(values)) if isinstance(values, dict) else {}
