"""Where an installed Salt takes modules from: by itself it looks at no owner, and reads `__pycache__`."""
import os
import stat

from halite.afterwards import after
from halite.beside import is_safe

# Entries of a directory that are looked at, and links in a path.
MOST = 10000
MOST_LINKS = 40


def guard(wire):
    """To be called before anything of Salt's is imported."""
    after("salt.config", no_system_path)
    after("salt.loader", lambda loaders: guard_loaders(wire, loaders))
    after("salt.client.ssh", roster_alone)


def no_system_path(config):
    """It would put the `utils` of a stock Salt into `sys.path`, whoever they belong to; users' own are found beside their modules."""
    config.insert_system_path = lambda opts, paths: None


def roster_alone(ssh):
    """Targets are those of the roster: whoever may use it for one host must not name others, with the master's key."""
    ssh.SSH._update_targets = lambda self: None


def guard_loaders(wire, loaders):
    """Salt's loaders leave out directories in which anything is not safe, unless they are Salt's own."""
    # Where Salt's package is, and what is installed beside it.
    own = os.path.join(os.path.realpath(os.path.dirname(os.path.dirname(os.path.dirname(loaders.__file__)))), "")
    known = {}

    def resolved(place):
        """Without links, which might lead elsewhere in a moment; nothing if the place is not safe."""
        real = os.path.realpath(place)
        if os.path.join(real, "").startswith(own):
            return place
        if not os.path.isdir(real):
            return None
        why = fault_on_the_way(os.path.abspath(place))
        if not why and known.get(real) != "":
            why = fault_below(real)
        if why and known.get(real) != why:
            wire.tell("log", "warn", "halite", "%s: the installed Salt does not load from it, because another user owns or can change %s" % (place, why))
        known[real] = why
        return None if why else real

    for name in ("_module_dirs", "_resource_type_module_dirs"):
        find = getattr(loaders, name, None)
        if find:
            setattr(loaders, name, checked(find, resolved))


def checked(find, resolved):
    def places(*args, **kwargs):
        return [one for one in map(resolved, find(*args, **kwargs)) if one]

    return places


def fault_below(place):
    """What in a directory is not safe; an empty text if nothing is."""
    left = [place]
    seen = 0
    while left:
        path = left.pop()
        seen += 1
        try:
            found = os.lstat(path)
            is_directory = stat.S_ISDIR(found.st_mode)
            if is_directory:
                left.extend(os.path.join(path, name) for name in os.listdir(path))
        except FileNotFoundError:
            continue
        except OSError:
            return path
        if seen > MOST or not is_safe(found, stat.S_ISDIR if is_directory else stat.S_ISREG):
            return path
    return ""


def fault_on_the_way(place):
    """What on the way to a directory is not safe: every directory and link that the kernel passes. Others may write to a directory that is
    sticky, where what is not theirs stays."""
    here, left, links = "/", [part for part in place.split("/") if part], 0
    while left:
        part = left.pop(0)
        here = os.path.dirname(here) if part == ".." else os.path.join(here, part)
        try:
            found = os.lstat(here)
            is_link = stat.S_ISLNK(found.st_mode)
            is_open = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX and not is_link
            if found.st_uid not in (0, os.geteuid()) or is_open or links > MOST_LINKS:
                return here
            if is_link:
                links += 1
                target = os.readlink(here)
                here = "/" if target.startswith("/") else os.path.dirname(here)
                left = [part for part in target.split("/") if part not in ("", ".")] + left
        except OSError:
            return here
    return ""
