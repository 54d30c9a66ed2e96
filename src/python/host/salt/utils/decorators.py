"""Decorators of functions."""
import functools

try:
    from functools import cached_property  # noqa: F401
except ImportError:
    pass


def depends(*dependencies, **options):
    """A function that is only there if all names of its module that are given are set, or all commands succeed.

    halite leaves a function without `fallback_function` out once its module is loaded; called in Python it says what
    is missing."""
    fallback = options.get("fallback_function")

    def missing(function):
        space = function.__globals__
        for one in dependencies:
            if "retcode" in options or "nonzero_retcode" in options:
                there = _succeeds(one, options)
            elif isinstance(one, str):
                there = bool(space.get(one)) and _new_enough(space[one], options.get("version"))
            else:
                there = one is True
            if not there:
                return one
        return None

    def decorate(function):
        if missing(function) is None:
            return function

        @functools.wraps(function)
        def inner(*args, **kwargs):
            # What was missing may have been defined below the function.
            lacking = missing(function)
            if lacking is None:
                return function(*args, **kwargs)
            if fallback is not None:
                return fallback(*args, **kwargs)
            from salt.exceptions import CommandExecutionError

            name = "%s.%s" % (function.__module__.rpartition(".")[2], function.__name__)
            raise CommandExecutionError("'%s' is not available: it needs %s" % (name, lacking))

        inner.halite_missing = lambda: fallback is None and missing(function) is not None
        return inner

    return decorate


Depends = depends


def _succeeds(command, options):
    import shlex
    import subprocess

    try:
        code = subprocess.call(shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        code = -1
    return code == options["retcode"] if "retcode" in options else bool(code) == bool(options["nonzero_retcode"])


def _new_enough(module, version):
    from salt.utils.versions import version_cmp

    return version is None or version_cmp(getattr(module, "__version__", None), version) in (0, 1)


def memoize(func):
    """Remembers results by the text of arguments."""
    known = {}

    @functools.wraps(func)
    def inner(*args, **kwargs):
        key = tuple(map(str, args)), tuple(sorted((name, str(value)) for name, value in kwargs.items()))
        if key not in known:
            known[key] = func(*args, **kwargs)
        return known[key]

    return inner


def timing(function):
    """Logs how long calls take."""

    @functools.wraps(function)
    def inner(*args, **kwargs):
        import logging
        import time

        from salt.utils.args import clean_kwargs

        start = time.time()
        ret = function(*args, **clean_kwargs(**kwargs))
        logging.getLogger(__name__).log(15, "%s.%s took %.6f seconds", function.__module__, function.__name__, time.time() - start)
        return ret

    return inner


class _Old:
    """Takes what Salt's decorators of old functions take; the function works on, with a warning."""

    OPT_IN, OPT_OUT = 1, 2

    def __init__(self, globals=None, version=None, with_successor=None, with_name=None, policy=OPT_OUT):
        self.version, self.successor = version, with_successor

    def __call__(self, function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            if self.warns:
                import logging

                words = "%s is deprecated, and gone in Salt %s" % (function.__name__, self.version)
                logging.getLogger(__name__).warning(words + "; use %s" % self.successor if self.successor else words)
            return function(*args, **kwargs)

        return inner


class is_deprecated(_Old):
    """Of a function that goes away."""

    warns = True


class with_deprecated(_Old):
    """Of a function whose older form users may ask for; halite runs the newer one."""

    warns = False


def _count(names, wrong):
    """Looks at how many of these keywords have a value, by name or by position."""

    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            given = {**dict(zip(function.__code__.co_varnames, args)), **kwargs}
            text = wrong(sum(1 for name in names if given.get(name)))
            if text:
                from salt.exceptions import SaltInvocationError

                raise SaltInvocationError("%s: %s" % (text, ", ".join(names)))
            return function(*args, **kwargs)

        return inner

    return decorate


def allow_one_of(*kwarg_names):
    """At most one of these keywords may be given."""
    return _count(kwarg_names, lambda count: count > 1 and "Only of the following is allowed")


def require_one_of(*kwarg_names):
    """Just one of these keywords must be given."""
    words = {0: "One of the following must be provided", 1: None}
    return _count(kwarg_names, lambda count: words.get(count, "Only one of the following is allowed"))


def ignores_kwargs(*kwarg_names):
    """Drops these keywords."""

    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **{name: value for name, value in kwargs.items() if name not in kwarg_names})

        return inner

    return decorate


def ensure_unicode_args(function):
    """Nothing to do: text is Unicode."""
    return function
