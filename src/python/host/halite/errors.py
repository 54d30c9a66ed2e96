"""Exceptions, from here to halite and back."""
import builtins

import salt.exceptions


def described(error):
    """What halite needs of an exception to report it."""
    kind = type(error)
    return {
        "kind": category(error),
        "class": class_name(kind),
        "text": text_of(error),
        "trace": trace(error),
    }


def text_of(error):
    try:
        return str(error)
    except Exception as worse:
        return "%s while its text was made" % type(worse).__name__


def class_name(kind):
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else "%s.%s" % (kind.__module__, kind.__qualname__)


def category(error):
    for kind in ("CommandNotFoundError", "CommandExecutionError", "SaltInvocationError"):
        if isinstance(error, getattr(salt.exceptions, kind)):
            return kind
    return "TypeError" if isinstance(error, TypeError) else ""


def trace(error):
    """The lines of a traceback that tell of users' code."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<halite") and not frame.filename.startswith("<frozen importlib")]
    return "".join(traceback.format_list(own))


class Unknown(Exception):
    """An exception of halite's that Python has no class for."""


def exception(answer):
    """The exception for an error in halite."""
    name, text = answer["class"], answer["text"]
    short = name.rpartition(".")[2]
    kind = getattr(salt.exceptions, short, None) or getattr(builtins, short, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(short or "Unknown", (Unknown,), {"__module__": "halite"})
    if kind is KeyError:
        # Its text is the key's representation.
        return kind(text.strip("'"))
    try:
        return kind(text)
    except Exception:
        return Unknown("%s: %s" % (name, text))
