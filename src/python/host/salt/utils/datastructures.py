"""Maps that keep their order, as all maps of Python do now."""
from collections import OrderedDict


class DefaultOrderedDict(OrderedDict):
    """Makes values that are missing."""

    def __init__(self, default_factory=None, *args, **kwargs):
        if not (default_factory is None or callable(default_factory)):
            raise TypeError("first argument must be callable")
        super().__init__(*args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key):
        if self.default_factory is None:
            raise KeyError(key)
        return self.setdefault(key, self.default_factory())

    def copy(self):
        return type(self)(self.default_factory, self)

    __copy__ = copy

    def __repr__(self):
        return "DefaultOrderedDict(%s, %s)" % (self.default_factory, super().__repr__())


class HashableOrderedDict(OrderedDict):
    """May be a key; two of them are never the same."""

    __hash__ = object.__hash__
