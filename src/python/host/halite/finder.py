"""Imports our own modules: they come over the connection and are no files."""
import importlib.machinery
import sys

REMEDY = "set legacy_salt to an installed Salt, whose modules then run this function"


class Finder:
    """Finds `halite.*`, and the part of `salt.*` that we have, unless there is an installed Salt."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name in self.sources:
            spec = importlib.machinery.ModuleSpec(name, self, origin="<%s>" % name)
            if any(other.startswith(name + ".") for other in self.sources):
                spec.submodule_search_locations = []
            return spec
        if "salt" in self.sources and name.startswith("salt.") and not name.startswith("salt.loaded"):
            raise ModuleNotFoundError("halite has no %s; %s" % (name, REMEDY), name=name)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        if name.startswith("salt"):
            module.__getattr__ = missing(name)
        exec(compile(self.sources[name], "<%s>" % name, "exec"), module.__dict__)

    def get_source(self, name):
        return self.sources.get(name)


def missing(package):
    """`salt.utils.files` works after `import salt.utils`, too; what is not there names the remedy."""

    def getattr_(name):
        if not name.startswith("__"):
            try:
                __import__("%s.%s" % (package, name))
                return sys.modules["%s.%s" % (package, name)]
            except ImportError:
                pass
        raise AttributeError("halite's %s has no %s; %s" % (package, name, REMEDY))

    return getattr_
