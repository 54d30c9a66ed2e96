"""Imports users' files: only what root or this account alone may change, and from its text, never from `__pycache__`."""
import importlib.machinery
import importlib.util
import os
import stat
import sys


class Source(importlib.machinery.SourceFileLoader):
    """Checks the file that it reads."""

    def get_code(self, fullname):
        fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not is_safe(found, stat.S_ISREG):
                raise ImportError("%s: another user owns it or can write to it" % self.path, path=self.path)
            stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            known = COMPILED.get(self.path)
            if known is None or known[0] != stamp:
                known = COMPILED[self.path] = (stamp, compile(file.read(), self.path, "exec", dont_inherit=True))
            return known[1]


# A master loads modules anew for each pillar; what has not changed is not compiled again.
COMPILED = {}


def is_safe(found, kind):
    return kind(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def spec_of(name, path):
    below = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
    return importlib.util.spec_from_file_location(name, path, loader=Source(name, path), submodule_search_locations=below)


class Beside:
    """Finds modules beside users' own, after all others, and the parts of their packages."""

    def __init__(self):
        self.places = []
        # Before Python's own finder of files, which would take the parts of users' packages as they are.
        sys.meta_path.insert(1, Parts(self))
        sys.meta_path.append(self)

    def add(self, place):
        if place not in self.places:
            self.places.append(place)

    def find_spec(self, name, path=None, target=None):
        return None if path is not None else self.look(name, name, self.places)

    def look(self, name, last, places):
        for place in places:
            for path in (os.path.join(place, last, "__init__.py"), os.path.join(place, last + ".py")):
                if os.path.isfile(path):
                    if not all(is_safe(os.lstat(one), stat.S_ISDIR) for one in {place, os.path.dirname(path)}):
                        raise ImportError("%s: another user owns its directory or can write to it" % path, name=name, path=path)
                    return spec_of(name, path)
        return None


class Parts:
    """Parts of users' packages."""

    def __init__(self, beside):
        self.beside = beside

    def find_spec(self, name, path=None, target=None):
        if path is None:
            return None
        mine = [one for one in path if any(one.startswith(place + os.sep) for place in self.beside.places)]
        if not mine:
            return None
        found = self.beside.look(name, name.rpartition(".")[2], mine)
        if found is None:
            # Not left to finders that check nothing.
            raise ModuleNotFoundError("No module named %r" % name, name=name)
        return found
