"""Salt's decorators."""
import json

import salt.utils.decorators
from salt.utils.decorators import depends, memoize

CALLS = []


@depends("os")
def with_os():
    """Depends on a module that is there, but that this file does not import."""
    return "with os"


@depends("json")
def with_json():
    """Depends on a module that this file imports."""
    return json.dumps(["with json"])


@depends("corpus_is_not_installed")
def without():
    """Depends on one that is not."""
    return "never"


def _fallback():
    """In its place."""
    return "fallback"


@depends("corpus_is_not_installed", fallback_function=_fallback)
def falls_back():
    return "never"


@depends(False)
def by_condition():
    return "never"


@depends(True)
def by_true():
    return "by true"


@salt.utils.decorators.memoize
def slow(number):
    CALLS.append(number)
    return number * 10


def memoized():
    return [slow(1), slow(1), slow(2), CALLS]


@memoize
def plain():
    return "plain"
