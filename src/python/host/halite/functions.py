"""`__salt__`, `__states__` and `__utils__`: functions of users' modules first, then halite's own."""
import sys


# These change their first argument, unless `in_place` is false.
IN_PLACE = ("defaults.merge", "defaults.update", "slsutil.update")


def util(name):
    """A function of `salt.utils.*`, which Salt's loader has among the utilities."""
    module, _, function = name.partition(".")
    try:
        __import__("salt.utils." + module)
    except ImportError:
        return None
    return getattr(sys.modules["salt.utils." + module], function, None)


class Functions:
    """Looks like a dict of functions, and like modules with functions."""

    def __init__(self, loader, kind):
        self._loader = loader
        self._kind = kind
        self._known = {}

    def forget(self):
        self._known.clear()

    def __getitem__(self, name):
        known = self._known.get(name)
        if known is None:
            known = self._find(name)
            if known is None:
                raise KeyError(name)
            self._known[name] = known
        return known

    def _find(self, name):
        if not isinstance(name, str):
            return None
        modules = self._loader.kinds[self._kind]
        found = modules.own(name)
        if found is not None:
            return found.code
        standing = 0 if self._kind == "utils" else self._loader.wire.ask("has", self._kind, name)
        if standing == 2:
            found = modules.find(name)
            if found is not None:
                return found.code
        if standing:
            return Native(self._loader, self._kind, name)
        found = modules.find(name, thorough=True) or self._loader.elsewhere(self._kind, name)
        if found is None and self._kind == "utils":
            return util(name)
        return found and found.code

    def __contains__(self, name):
        try:
            self[name]
        except KeyError:
            return False
        return True

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default

    def __iter__(self):
        names = set(self._loader.kinds[self._kind].all())
        if self._kind != "utils":
            names.update(self._loader.wire.ask("names", self._kind))
        return iter(sorted(names))

    def keys(self):
        return list(self)

    def values(self):
        return [self[name] for name in self]

    def items(self):
        return [(name, self[name]) for name in self]

    def __len__(self):
        return sum(1 for _ in self)

    def __bool__(self):
        return True

    def __deepcopy__(self, memo):
        # Nobody gets functions of his own; Salt's loader copies what it has for modules.
        return self

    def __getattr__(self, module):
        # Salt's loader asks for `default` whether this is one of its own.
        if module.startswith("_") or module == "default":
            raise AttributeError(module)
        return Members(self, module)


class Members:
    """`__salt__.test` in `__salt__.test.ping()`."""

    def __init__(self, functions, module):
        self._functions = functions
        self._module = module

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._functions["%s.%s" % (self._module, name)]
        except KeyError:
            raise AttributeError(name) from None

    __getitem__ = __getattr__


class Native:
    """A function of halite's own."""

    def __init__(self, loader, kind, name):
        self._loader = loader
        self._kind = kind
        self.__name__ = name.rpartition(".")[2]
        self.__qualname__ = name
        self.__module__ = "halite"

    def __call__(self, *args, **kwargs):
        value, retcode = self._loader.wire.ask("call", self._kind, self.__qualname__, list(args), kwargs)
        if retcode:
            self._loader.context["retcode"] = retcode
        if self.__qualname__ in IN_PLACE and args and isinstance(args[0], dict) and isinstance(value, dict):
            if kwargs.get("in_place", args[3] if self.__qualname__ != "slsutil.update" and len(args) > 3 else True):
                args[0].update(value)
                return args[0]
        return value

    @property
    def __doc__(self):
        return self._loader.wire.ask("doc", self._kind, self.__qualname__)
