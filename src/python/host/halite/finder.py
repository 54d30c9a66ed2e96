"""Imports our own modules: they come over the connection and are no files."""
import _thread
import importlib.machinery
import os
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


class LateSite:
    """Python's `site`, which finds installed packages: run when an import finds nothing without it, or a thread is started."""

    # These look through all that is installed.
    EARLY = ("importlib.metadata", "pkgutil", "pkg_resources", "runpy", "sysconfig")

    def __init__(self, at_once):
        self.path = list(sys.path)
        self.done = False
        here = os.path.dirname(sys.executable or "/")
        # In a virtual environment it sets `sys.prefix` as well.
        if at_once or any(os.path.exists(os.path.join(place, "pyvenv.cfg")) for place in (here, os.path.dirname(here))):
            self.run()
            return
        sys.meta_path.append(self)
        sys.meta_path.insert(0, Before(self))
        # With threads, imports would wait for one another.
        for name in ("start_new_thread", "start_joinable_thread"):
            if hasattr(_thread, name):
                setattr(_thread, name, self.first(getattr(_thread, name)))

    def first(self, start):
        def begin(*args, **kwargs):
            self.run()
            return start(*args, **kwargs)

        return begin

    def run(self):
        if self.done:
            return
        self.done = True
        import site

        before = list(sys.path)
        site.main()
        # As if it had been there first: what code has added stays behind.
        found = [place for place in sys.path if place not in before]
        own = [place for place in before if place not in self.path]
        sys.path[:] = [place for place in sys.path if place not in found and place not in own] + found + own

    def find_spec(self, name, path=None, target=None):
        if self.done or path is not None and not name.startswith("importlib."):
            return None
        self.run()
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class Before:
    """Sees the imports that need it, whether they find something or not."""

    def __init__(self, late):
        self.late = late

    def find_spec(self, name, path=None, target=None):
        return self.late.find_spec(name, path, target) if name in LateSite.EARLY else None


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
