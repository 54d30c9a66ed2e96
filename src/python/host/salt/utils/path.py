"""Paths and programs."""
import os
import posixpath

from salt.utils.stringutils import to_str

# Where programs are found even if PATH does not say so.
_USUAL = ("/sbin", "/bin", "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")


def which(exe=None):
    """The path of a program, or None."""
    if not exe:
        return None
    places = os.environ.get("PATH", "").split(os.pathsep)
    places += [one for one in _USUAL if one not in places]
    for path in [exe] + [join(os.path.expandvars(one), exe) for one in places]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def which_bin(exes):
    """The first of several programs that is there."""
    if not hasattr(exes, "__iter__"):
        return None
    return next(filter(None, map(which, [exes] if isinstance(exes, str) else exes)), None)


def check_or_die(command):
    """Raises an exception if a program is missing."""
    from salt.exceptions import CommandNotFoundError

    if not which(command):
        wrong = "is not a valid command." if command is None else "is not in the path"
        raise CommandNotFoundError("'%s' %s" % (command, wrong))


def join(*parts, **kwargs):
    """Joins parts below the first one, even absolute ones."""
    from salt.utils.args import clean_kwargs, invalid_kwargs

    options = clean_kwargs(**kwargs)
    path = posixpath if options.pop("use_posixpath", False) else os.path
    if options:
        invalid_kwargs(options)
    if not parts:
        return ""
    first, *rest = [path.normpath(to_str(one)) for one in parts]
    return path.normpath(path.join(first, *[one.lstrip(os.sep) for one in rest]))


def islink(path):
    return os.path.islink(path)


def readlink(path):
    return os.readlink(path)


def os_walk(top, *args, **kwargs):
    """As `os.walk`, of text or bytes; what it finds is text."""
    return os.walk(to_str(top), *args, **kwargs)


def expand(path):
    """An absolute path without `~`, variables and symbolic links."""
    return os.path.realpath(os.path.expandvars(os.path.expanduser(path)))


def sanitize_win_path(winpath):
    """Without characters that Windows does not allow."""
    return winpath.translate(dict.fromkeys(map(ord, "<>:|?*"), "_")) if isinstance(winpath, str) else winpath
