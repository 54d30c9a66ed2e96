"""Directories of users' modules from which an installed Salt loads: it looks at no owner and reads `__pycache__`."""
import os
import stat
import sys

from halite.beside import is_safe

# Entries of a directory that are looked at.
MOST = 10000


def guard(wire, loaders):
    """Salt's loaders leave out directories in which anything is not safe, unless they are Salt's own."""
    own = tuple({os.path.join(os.path.realpath(one), "") for one in (os.path.dirname(os.path.dirname(loaders.__file__)), sys.prefix)})
    known = {}

    def is_left_out(place):
        real = os.path.realpath(place)
        if not os.path.isdir(real):
            return True
        if os.path.join(real, "").startswith(own) or known.get(place) == "":
            return False
        why = fault(real) or fault_above(os.path.abspath(place))
        if why and known.get(place) != why:
            wire.tell("log", "warn", "halite", "%s: the installed Salt does not load from it, because another user owns or can change %s" % (place, why))
        known[place] = why
        return bool(why)

    for name in ("_module_dirs", "_resource_type_module_dirs"):
        find = getattr(loaders, name, None)
        if find:
            setattr(loaders, name, checked(find, is_left_out))


def checked(find, is_left_out):
    def places(*args, **kwargs):
        return [one for one in find(*args, **kwargs) if not is_left_out(one)]

    return places


def fault(place):
    """What in a directory, or above it, is not safe; an empty text if nothing is."""
    left = [place]
    seen = 0
    while left:
        path = left.pop()
        seen += 1
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        is_directory = stat.S_ISDIR(found.st_mode)
        if seen > MOST or not is_safe(found, stat.S_ISDIR if is_directory else stat.S_ISREG):
            return path
        if is_directory:
            left.extend(os.path.join(path, name) for name in os.listdir(path))
    return fault_above(place)


def fault_above(place):
    """The same for the directories above, where others may write if they are sticky, and for links."""
    while place != "/":
        place = os.path.dirname(place)
        try:
            found = os.stat(place)
        except FileNotFoundError:
            continue
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            return place
    return ""
