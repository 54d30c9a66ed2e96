"""Decorators of functions that need programs."""
import functools

from salt.utils import path


def _needs(found, text):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            if found() is None:
                from salt.exceptions import CommandNotFoundError

                raise CommandNotFoundError(text)
            return function(*args, **kwargs)

        return inner

    return decorate


def which(exe):
    """The program must be there."""
    return _needs(lambda: path.which(exe), "The '{}' binary was not found in $PATH.".format(exe))


def which_bin(exes):
    """One of the programs must be there."""
    names = ["'%s'" % one for one in exes]
    return _needs(lambda: path.which_bin(exes), "None of provided binaries({}) were found in $PATH.".format(names))
