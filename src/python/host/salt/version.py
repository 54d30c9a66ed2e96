"""The Salt release that halite follows, and what its versions look like."""
import functools
import re

# Releases by name, which are elements of the periodic table: at first by year and month, then numbers.
_OLD = {
    "Hydrogen": (2014, 1), "Helium": (2014, 7), "Lithium": (2015, 5), "Beryllium": (2015, 8), "Boron": (2016, 3),
    "Carbon": (2016, 11), "Nitrogen": (2017, 7), "Oxygen": (2018, 3), "Fluorine": (2019, 2),
}  # fmt: skip
_NEW = "Neon Sodium Magnesium Aluminium Silicon Phosphorus Sulfur Chlorine Argon Potassium Calcium Scandium Titanium Vanadium Chromium"
_NAMES = {**_OLD, **{name: (3000 + at,) for at, name in enumerate(_NEW.split())}}
_BY_NAME = {name.lower(): numbers for name, numbers in _NAMES.items()}
_BY_NUMBERS = {numbers: name for name, numbers in _NAMES.items()}


@functools.total_ordering
class SaltStackVersion:
    """A version of Salt, compared with others, text and tuples."""

    NAMES, LNAMES, VNAMES = _NAMES, _BY_NAME, _BY_NUMBERS

    def __init__(self, major, minor=None, bugfix=None, mbugfix=0, pre_type=None, pre_num=None, noc=0, sha=None):
        number = lambda value: int(value) if value not in (None, "") else None
        self.major, self.minor, self.bugfix = number(major), number(minor), number(bugfix)
        self.mbugfix, self.pre_type, self.pre_num = number(mbugfix) or 0, pre_type or "", number(pre_num) or 0
        self.noc, self.sha = number(-1 if noc in ("0na", "n/a") else noc) or 0, sha
        if self.major >= 3006:
            self.minor = self.minor or 0
        if self.major < 3000:
            self.bugfix = self.bugfix or 0
        self.name = _BY_NUMBERS.get((self.major,) if self.major >= 3000 else (self.major, self.minor))

    @classmethod
    def parse(cls, version_string):
        """From a name or a number."""
        if version_string.lower() in _BY_NAME:
            return cls.from_name(version_string)
        found = re.match(
            r"\D*(\d{1,4})(?:\.(\d{1,2}))?(?:\.(\d{0,2}))?(?:\.(\d{0,2}))?"
            r"(?:(rc|a|b|alpha|beta|nb)(\d+))?(?:.*[+-](0na|\d+|n/a)[-.](g?[a-f0-9]{7,40}))?",
            version_string,
        )
        if not found:
            raise ValueError("Unable to parse version string: '{}'".format(version_string))
        return cls(*found.groups())

    @classmethod
    def from_name(cls, name):
        numbers = _BY_NAME.get(name.lower())
        if numbers is None:
            raise ValueError("Named version '{}' is not known".format(name))
        return cls(*numbers)

    @classmethod
    def current_release(cls):
        return cls(__version_info__[0])

    @property
    def info(self):
        if self.major < 3000:
            return self.major, self.minor, self.bugfix, self.mbugfix
        return (self.major, self.minor) if self.minor or self.major >= 3006 else (self.major,)

    @property
    def string(self):
        text = ".".join(map(str, self.info if self.major >= 3000 else self.info[:3]))
        if self.mbugfix:
            text += ".%d" % self.mbugfix
        if self.pre_type:
            text += "%s%d" % (self.pre_type, self.pre_num)
        return text + "+%s.%s" % (self.noc if self.noc >= 0 else "0na", self.sha) if self.sha else text

    @property
    def formatted_version(self):
        return "%s (%s)" % (self.string, self.name) if self.name else self.string

    def __str__(self):
        return self.string

    def __repr__(self):
        return "<SaltStackVersion %s>" % self.string

    def _order(self):
        numbers = self.major, self.minor or 0, self.bugfix or 0 if self.major < 3000 else 0, self.mbugfix
        return numbers + (self.pre_type or "zzzzz", self.pre_num, self.noc)

    @staticmethod
    def _other(other):
        if isinstance(other, str):
            return SaltStackVersion.parse(other)
        if isinstance(other, (list, tuple)):
            return SaltStackVersion(*other)
        if isinstance(other, SaltStackVersion):
            return other
        raise ValueError("Cannot instantiate Version from type '{}'".format(type(other)))

    def __eq__(self, other):
        return self._order() == self._other(other)._order()

    def __lt__(self, other):
        return self._order() < self._other(other)._order()

    __hash__ = None


def _followed():
    """What the grain says, if there is one."""
    from halite.main import HERE

    loader = HERE.get("loader")
    return str((loader.grains if loader else {}).get("saltversion") or "3008.3")


__version__ = _followed()
__saltstack_version__ = SaltStackVersion.parse(__version__)
__version_info__ = __saltstack_version__.info
