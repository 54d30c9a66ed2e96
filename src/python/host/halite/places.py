"""Directories of users' modules from which an installed Salt loads: it looks at no owner and reads `__pycache__`."""
import os
import stat

from halite.beside import is_safe

# Entries of a directory that are looked at.
MOST = 10000


def guard(wire, loaders):
    """Salt's loaders leave out directories in which anything is not safe, unless they are Salt's own."""
    # Where Salt's package is, and what is installed beside it.
    own = os.path.join(os.path.realpath(os.path.dirname(os.path.dirname(os.path.dirname(loaders.__file__)))), "")
    known = {}

    def is_left_out(place):
        real = os.path.realpath(place)
        if not os.path.isdir(real):
            return True
        if os.path.join(real, "").startswith(own) or known.get(place) == "":
            return False
        # Also by the name that Salt uses: links in it must not lead elsewhere in a moment.
        why = fault(real) or fault_above(os.path.join(os.path.abspath(place), ""))
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
    """The same for all above it. Others may write to a directory that is sticky, where what is not theirs stays; a link there has to be ours."""
    while place != "/":
        place = os.path.dirname(place)
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            continue
        is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
        if found.st_uid not in (0, os.geteuid()) or is_open:
            return place
    return ""
