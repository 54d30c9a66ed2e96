"""Compares versions, and talks about old ways."""
import re


class LooseVersion:
    """A version of any shape: numbers and what is between them."""

    def __init__(self, vstring=None):
        if vstring:
            self.parse(vstring)

    def parse(self, vstring):
        self.vstring = vstring
        parts = [part for part in re.split(r"(\d+|[a-z]+|\.)", vstring) if part not in ("", ".")]
        self.version = [int(part) if part.isdecimal() else part for part in parts]

    def _cmp(self, other):
        if isinstance(other, str):
            other = LooseVersion(other)
        if not isinstance(other, LooseVersion):
            return NotImplemented
        mine, theirs = self.version, other.version
        if any(isinstance(part, str) for part in mine + theirs):
            # Numbers and text are compared as text; numbers by size up to eight digits.
            mine, theirs = ([part if isinstance(part, str) else "%08d" % part for part in one] for one in (mine, theirs))
        return (mine > theirs) - (mine < theirs)

    def __str__(self):
        return self.vstring

    def __repr__(self):
        return "LooseVersion ('%s')" % self.vstring

    __hash__ = None


class Version:
    """A version as PEP 440 describes them."""

    _FORM = re.compile(
        r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
        r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|a|b|c|rc)[-_.]?(?P<pre_n>\d*))?"
        r"(?:-(?P<post_only>\d+)|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_n>\d*)))?"
        r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$",
        re.I,
    )
    _PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}

    def __init__(self, version):
        found = self._FORM.match(version)
        if not found:
            raise InvalidVersion("Invalid version: {!r}".format(version))
        part = found.groupdict()
        count = lambda name: int(part[name] or 0)
        self.epoch, self.release = count("epoch"), tuple(map(int, part["release"].split(".")))
        pre = part["pre"] and part["pre"].lower()
        self.pre = (self._PRE.get(pre, pre), count("pre_n")) if pre else None
        self.post = int(part["post_only"]) if part["post_only"] else count("post_n") if part["post"] else None
        self.dev = count("dev_n") if part["dev"] else None
        self.local = part["local"] and re.sub(r"[-_]", ".", part["local"].lower())
        self.major, self.minor, self.micro = (self.release + (0, 0))[:3]
        self._key = self._order()

    def _order(self):
        last = max((at + 1 for at, number in enumerate(self.release) if number), default=0)
        # Development versions come before all others of a release, then those before it, itself, those after it.
        pre = self.pre or (("", 0) if self.dev is not None and self.post is None else ("z", 0))
        local = [(1, int(one), "") if one.isdigit() else (0, 0, one) for one in (self.local or "").split(".") if one]
        dev = float("inf") if self.dev is None else self.dev
        return self.epoch, self.release[:last], pre, -1 if self.post is None else self.post, dev, local

    @property
    def public(self):
        return str(self).partition("+")[0]

    @property
    def base_version(self):
        return ("%d!" % self.epoch if self.epoch else "") + ".".join(map(str, self.release))

    @property
    def is_prerelease(self):
        return self.pre is not None or self.dev is not None

    def _cmp(self, other):
        if isinstance(other, str):
            other = type(self)(other)
        if not isinstance(other, Version):
            return NotImplemented
        return (self._key > other._key) - (self._key < other._key)

    def __str__(self):
        text = self.base_version + "%s%d" % self.pre if self.pre else self.base_version
        text += "" if self.post is None else ".post%d" % self.post
        text += "" if self.dev is None else ".dev%d" % self.dev
        return text + "+" + self.local if self.local else text

    def __repr__(self):
        return "<Version('%s')>" % self

    def __hash__(self):
        return hash(str(self._key))


class StrictVersion(Version):
    """The older name."""


class InvalidVersion(ValueError):
    """No version."""


def _operators(kind):
    """Six comparisons that ask `_cmp`."""
    import operator

    for name in ("eq", "ne", "lt", "le", "gt", "ge"):

        def compared(self, other, holds=getattr(operator, name)):
            order = self._cmp(other)
            return order if order is NotImplemented else holds(order, 0)

        setattr(kind, "__%s__" % name, compared)


_operators(LooseVersion)
_operators(Version)


def parse(version):
    return Version(version)


def version_cmp(pkg1, pkg2, ignore_epoch=False):
    """-1, 0 or 1; None if they cannot be compared."""
    texts = [re.sub(r"^[^:]*:" if ignore_epoch else "^", "", str(one)) for one in (pkg1, pkg2)]
    try:
        first, second = map(LooseVersion, texts)
        return first._cmp(second)
    except AttributeError:
        # An empty text is no version.
        return None


def compare(ver1="", oper="==", ver2="", cmp_func=None, ignore_epoch=False):
    """Whether a comparison of two versions holds."""
    order = (cmp_func or version_cmp)(ver1, ver2, ignore_epoch=ignore_epoch)
    if not isinstance(order, int):
        return False
    holds = {"<": order < 0, "<=": order <= 0, "==": not order, "!=": bool(order), ">=": order >= 0, ">": order > 0}
    return holds.get(oper, False)


def check_boto_reqs(boto_ver=None, boto3_ver=None, botocore_ver=None, check_boto=True, check_boto3=True):
    """True if Amazon's libraries are new enough, else False and what is missing."""
    import importlib

    wanted = [("boto", boto_ver or "2.0.0")] * bool(check_boto)
    wanted += [("boto3", boto3_ver or "1.2.6"), ("botocore", botocore_ver or "1.3.23")] * bool(check_boto3)
    for name, version in wanted:
        try:
            there = version_cmp(importlib.import_module(name).__version__, version) != -1
        except ImportError:
            there = False
        if not there:
            return False, "A minimum version of {} {} is required.".format(name, version)
    return True


def _named(version):
    from salt.version import SaltStackVersion

    if isinstance(version, SaltStackVersion):
        return version
    if isinstance(version, str):
        return SaltStackVersion.from_name(version)
    return SaltStackVersion(*version) if isinstance(version, tuple) else SaltStackVersion(version)


def warn_until(version, message, category=DeprecationWarning, stacklevel=None, **options):
    """A warning about something that goes away in a release."""
    import warnings

    warnings.warn(message.format(version=_named(version).formatted_version), category, stacklevel=stacklevel or 2)


def warn_until_date(date, message, category=DeprecationWarning, stacklevel=None, **options):
    """A warning about something that goes away at a date, as text of eight digits or a date."""
    import datetime
    import warnings

    day = datetime.datetime.strptime(date, "%Y%m%d").date() if isinstance(date, str) else date
    text = message.format(date=day.isoformat(), today=datetime.date.today().isoformat())
    warnings.warn(text, category, stacklevel=stacklevel or 2)


def kwargs_warn_until(kwargs, version, category=DeprecationWarning, stacklevel=None, **options):
    """A warning about keywords that go away in a release."""
    if kwargs:
        names = ", ".join(map("'{}'".format, kwargs))
        warn_until(version, "deprecated, and gone in {version}: %s" % names, category, stacklevel or 3)
