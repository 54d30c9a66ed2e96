"""What Salt's helpers answer, one line of JSON for each case: run it with a Python that has Salt, and `run.py` beside it for
halite's part of Salt's package; both must print the same.

A case is an expression. Marks after `  #`: `wire` needs halite's YAML and is left out with the stub of run.py, `class` compares
only the class of an exception, `3006` differs in Salt 3006 (3008 counts).
"""
import atexit
import collections
import datetime
import errno
import json
import os
import shutil
import sys
import tempfile

import salt.exceptions
import salt.utils.args
import salt.utils.compat
import salt.utils.context
import salt.utils.data
import salt.utils.dateutils
import salt.utils.decorators
import salt.utils.decorators.path
import salt.utils.dictdiffer
import salt.utils.dictupdate
import salt.utils.event
import salt.utils.files
import salt.utils.hashutils
import salt.utils.jid
import salt.utils.json
import salt.utils.network
import salt.utils.odict
import salt.utils.path
import salt.utils.platform
import salt.utils.state
import salt.utils.stringutils
import salt.utils.systemd
import salt.utils.url
import salt.utils.user
import salt.utils.versions
import salt.utils.yaml
import salt.version
from salt.exceptions import *  # noqa: F403

STUB = "--stub" in sys.argv
DIR = tempfile.mkdtemp()
atexit.register(shutil.rmtree, DIR)
# Short names for the cases.
exceptions, version = salt.exceptions, salt.version
for name in "args context data dateutils decorators dictdiffer dictupdate event files hashutils".split():
    globals()[name] = getattr(salt.utils, name)
for name in "jid network odict path platform state systemd url user versions yaml".split():
    globals()[name] = getattr(salt.utils, name)
# Not to hide other names.
sjson, text = salt.utils.json, salt.utils.stringutils
OD = collections.OrderedDict


def at(name, content=None, mode=None):
    """The path of a file with this content."""
    full = os.path.join(DIR, name)
    if content is not None:
        with open(full, "wb") as file:
            file.write(content)
    if mode is not None:
        os.chmod(full, mode)
    return full


def read(full):
    with open(full, "rb") as file:
        return file.read()


def within(manager, *ask):
    """What a function says inside of a block."""
    with manager as value:
        return [one(value) for one in ask]


def after(ask, *values):
    """The values when the first expression has been evaluated: it changes them."""
    return [ask, *values]


def sample(a, b, c=3, *rest, d=4, **more):
    """A function with all kinds of arguments."""


def few(a, b=2):
    """A function with few of them."""


class Klass:
    def method(self, x, y=1):
        pass


@salt.utils.decorators.memoize
def counted(*a, **k):
    COUNT.append(1)
    return len(COUNT)


COUNT = []


@salt.utils.decorators.allow_one_of("one", "two")
def allowed(one=None, two=None):
    return [one, two]


@salt.utils.decorators.require_one_of("one", "two")
def required(one=None, two=None):
    return [one, two]


@salt.utils.decorators.ignores_kwargs("saltenv")
def ignoring(**kwargs):
    return kwargs


@salt.utils.decorators.path.which("no-such-program")
def needing():
    return True


@salt.utils.decorators.path.which_bin(["no-such-program", "nor-this"])
def needing_one():
    return True


@salt.utils.decorators.path.which("sh")
def having():
    return True


@salt.utils.decorators.ensure_unicode_args
def unicode_args(a):
    return a


def differ(*a, **k):
    """All views of a difference."""
    one = dictdiffer.recursive_diff(*a, **k)
    return {
        "diffs": one.diffs, "new": one.new_values, "old": one.old_values, "text": one.changes_str, "added": one.added(), "removed": one.removed(),
        "changed": one.changed(), "unchanged": one.unchanged(), "nested": one.added(include_nested=True), "slash": one.changed(separator="/"),
        "gone": one.removed(include_nested=True),
    }  # fmt: skip


def simple_differ(new, old):
    one = dictdiffer.diff(new, old)
    return [one.added(), one.removed(), one.changed(), one.unchanged()]


def circle():
    inner = {"a": b"x"}
    inner["me"] = inner
    return inner


def error_of(kind, *a, **k):
    """All that handlers look at in an exception."""
    one = kind(*a, **k)
    found = {"class": kind.__name__, "text": str(one), "args": one.args, "bases": [base.__name__ for base in kind.__mro__]}
    for name in "message strerror error info strerror_without_changes code jid errno line_num context exit_code buffer".split():
        if hasattr(one, name):
            found[name] = getattr(one, name)
    return found


def logged():
    return __salt_system_encoding__  # noqa: F821


GRAINS = {
    "os": "Debian", "osmajor": 12, "ips": ["10.0.0.1", "::1"], "deep": {"a": {"b": [1, {"c": "found"}, {"d": None}]}},
    5: "five", "roles": [{"web": 1}, "db"],
}  # fmt: skip
TABLE = {
    "Debian": {"pkg": "apache2", "deep": {"x": 1}}, "Red*": {"pkg": "httpd"}, "default": {"pkg": "none"},
    "base": {"deep": {"x": 0, "y": 2}, "svc": "s"}, "12": "twelve",
}  # fmt: skip


def cases():
    """The lines below, with their marks."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.txt"), encoding="utf-8") as file:
        for line in file:
            expression, _, marks = line.rstrip("\n").partition("  # ")
            if expression.strip() and not expression.startswith("# "):
                yield expression, marks.split()


def shown(value):
    """What JSON knows, types apart."""
    if isinstance(value, dict):
        items = {key if type(key) is str else "%s %r" % (type(key).__name__, key): shown(one) for key, one in value.items()}
        return items if type(value) is dict else {type(value).__name__: items, "order": list(map(str, value))}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, tuple):
        return {type(value).__name__: [shown(one) for one in value]}
    return value if value is None or type(value) in (str, int, bool) else "%s %s" % (type(value).__name__, repr(value).replace(DIR, "DIR"))


def answer(expression, marks):
    try:
        return {"value": shown(eval(expression, globals()))}
    except SystemExit as error:
        return {"exit": str(error.code)}
    except Exception as error:
        # Classes of other packages, which users know by their base.
        foreign = isinstance(error, ValueError) and type(error).__module__ not in ("builtins", "salt.exceptions")
        kind = "ValueError" if foreign else type(error).__name__
        return {"error": kind} if "class" in marks else {"error": kind, "text": str(error)}


def main():
    for expression, marks in cases():
        if not (STUB and "wire" in marks):
            print(json.dumps({"case": expression, **answer(expression, marks)}, sort_keys=True).replace(DIR, "DIR"))


if __name__ == "__main__":
    main()
