"""Decorators of its own."""
import functools

__func_alias__ = {"twice_": "twice"}


def _shout(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return str(function(*args, **kwargs)).upper()

    return wrapper


def _bare(function):
    def wrapper(*args, **kwargs):
        return ["wrapped", function(*args, **kwargs)]

    return wrapper


def _repeat(times):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return [function(*args, **kwargs) for _ in range(times)]

        return wrapper

    return decorator


@_shout
def loud(word, end="!"):
    """Says it loud."""
    return word + end


@_bare
def unnamed(word="w"):
    """Lost documentation."""
    return word


@_repeat(2)
def twice_(word="w"):
    return word


@functools.lru_cache(maxsize=None)
def cached(number=1):
    return number + 1


bound = functools.partial(lambda a, b: [a, b], 1)
lambda_ = lambda value=1: value * 2  # noqa: E731


class _Maker:
    def __init__(self, word):
        self.word = word

    def method(self, more=""):
        """A bound method."""
        return self.word + more

    @staticmethod
    def fixed():
        return "static"


method = _Maker("made").method
fixed = _Maker.fixed
