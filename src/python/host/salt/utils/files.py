"""Files."""
import contextlib
import errno
import os
import re
import stat
import threading

from salt.exceptions import CommandExecutionError

LOCAL_PROTOS = ("", "file")
REMOTE_PROTOS = ("http", "https", "ftp", "swift", "s3")
VALID_PROTOS = ("salt", "file") + REMOTE_PROTOS
TEMPFILE_PREFIX = "__salt.tmp."
# Digits of a digest in hexadecimal.
HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
HASHES_REVMAP = {digits: name for name, digits in HASHES.items()}

# The umask is one for all threads.
_UMASK = threading.RLock()


def fopen(*args, **kwargs):
    """`open`: text is UTF-8 and keeps its line ends."""
    if args and args[0] in (0, 1, 2):
        raise TypeError("{} is not a permitted file descriptor".format(args[0]))
    args = list(args)
    if len(args) > 1:
        kwargs["mode"] = args.pop(1)
        kwargs.update(zip(("buffering", "encoding", "errors", "newline"), args[1:]))
        del args[1:]
    mode = kwargs.get("mode") or "r"
    if kwargs.pop("binary", None) and "b" not in mode:
        mode = mode.replace("t", "") + "b"
    kwargs["mode"] = mode
    if "b" not in mode:
        kwargs.setdefault("encoding", "utf-8")
        kwargs["newline"] = kwargs.get("newline") or ""
    elif kwargs.get("buffering") == 1:
        kwargs["buffering"] = -1
    return open(*args, **kwargs)


@contextlib.contextmanager
def flopen(*args, **kwargs):
    """An open file with a lock: a shared one for reading."""
    import fcntl

    with fopen(*args, **kwargs) as file:
        writes = len(args) > 1 and set("wa") & set(args[1])
        fcntl.flock(file, fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def fpopen(*args, **kwargs):
    """An open file whose owner (`uid`, `gid`) and `mode` are set; how it is opened is the second argument."""
    owner = kwargs.pop("uid", -1), kwargs.pop("gid", -1)
    mode = kwargs.pop("mode", None)
    with fopen(*args, **kwargs) as file:
        if owner != (-1, -1):
            os.chown(args[0], *owner)
        if mode is not None:
            os.chmod(args[0], mode)
        yield file


def mkstemp(*args, **kwargs):
    """A new file's path; with `close_fd=False` its descriptor, too."""
    # Slow to import, as is `shutil`.
    import tempfile

    close = kwargs.pop("close_fd", True) is not False
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    fd, path = tempfile.mkstemp(*args, **kwargs)
    if not close:
        return fd, path
    os.close(fd)
    return path


def get_umask():
    with _UMASK:
        mask = os.umask(0)
        os.umask(mask)
    return mask


@contextlib.contextmanager
def set_umask(mask):
    """Another umask for a while; None for the same."""
    if mask is None:
        yield
        return
    with _UMASK:
        before = os.umask(mask)
        try:
            yield
        finally:
            os.umask(before)


def safe_rm(tgt):
    """Removes a file if that can be done."""
    with contextlib.suppress(OSError):
        os.remove(tgt)


def remove(path):
    """Removes a file that may be missing."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def rm_rf(path):
    """Removes a file or a tree."""
    import shutil

    tree = os.path.isdir(path) and not os.path.islink(path)
    (shutil.rmtree if tree else os.remove)(path)


def rename(src, dst):
    os.rename(src, dst)


def _copy(source, dest):
    import shutil

    shutil.copyfile(source, dest)


def recursive_copy(source, dest):
    """Copies the files of a tree into another one."""
    for root, _, names in os.walk(source):
        target = os.path.join(dest, os.path.relpath(root, source))
        os.makedirs(target, exist_ok=True)
        for name in names:
            _copy(os.path.join(root, name), os.path.join(target, name))


def copyfile(source, dest, backup_mode="", cachedir=""):
    """Puts a copy in place at once, with the mode and owner of what was there."""
    below = os.path.dirname(dest)
    for path, there in ((source, os.path.isfile(source)), (dest, os.path.isdir(below))):
        if not there:
            raise OSError("[Errno 2] No such file or directory: {}".format(path))
    before = os.stat(dest) if os.path.exists(dest) else None
    made = mkstemp(prefix=os.path.basename(dest), dir=below)
    try:
        _copy(source, made)
        if before and (backup_mode == "minion" or backup_mode == "both" and cachedir):
            backup_minion(dest, os.path.join(cachedir, "file_backup") if cachedir else "")
        os.rename(made, dest)
    except BaseException:
        safe_rm(made)
        raise
    if before:
        os.chown(dest, before.st_uid, before.st_gid)
        os.chmod(dest, stat.S_IMODE(before.st_mode))


def backup_minion(path, bkroot):
    """Keeps a copy of a file in a directory for old versions; its name ends with the time."""
    import datetime

    stamp = datetime.datetime.now().strftime("%a_%b_%d_%H:%M:%S_%f_%Y")
    backup = os.path.join(bkroot, os.path.dirname(path)[1:], "%s_%s" % (os.path.basename(path), stamp))
    os.makedirs(os.path.dirname(backup), exist_ok=True)
    known = os.stat(path)
    _copy(path, backup)
    os.chown(backup, known.st_uid, known.st_gid)
    os.chmod(backup, stat.S_IMODE(known.st_mode))


def guess_archive_type(name):
    """`tar`, `zip` or `rar` by a file's name, or nothing."""
    ending = re.search(r"\.(tar|tar\.(?:gz|bz2|xz|lzma)|tgz|tbz2?|txz|tlz|zip|rar)$", name.lower())
    return ending and (ending.group(1) if ending.group(1) in ("zip", "rar") else "tar")


def process_read_exception(exc, path, ignore=None):
    """Raises the error of a read in words for people, unless it is one to ignore."""
    known = [ignore] if isinstance(ignore, int) else ignore or ()
    if exc.errno in known:
        return
    words = {errno.ENOENT: "{0} does not exist", errno.EACCES: "Permission denied reading from {0}"}
    text = words.get(exc.errno, "Error {1} encountered reading from {0}: {2}")
    raise CommandExecutionError(text.format(path, exc.errno, exc.strerror))


def safe_walk(top, topdown=True, onerror=None, followlinks=True, _seen=None):
    """As `os.walk`, through symbolic links as well but into no directory twice."""
    seen = set() if _seen is None else _seen
    for root, dirs, files in os.walk(top, True, onerror, followlinks):
        known = os.stat(root)
        node = known.st_dev, known.st_ino
        if node in seen:
            dirs.clear()
        else:
            seen.add(node)
            yield root, dirs, files


def list_files(directory):
    """All files and directories below one, and itself."""
    found = {directory}
    for root, dirs, files in safe_walk(directory):
        found.update(os.path.join(root, name) for name in dirs + files)
    return list(found)


def is_text(fp_, blocksize=512):
    """Whether the start of a file, by path or open, is text."""
    from salt.utils.stringutils import is_binary as binary

    if hasattr(fp_, "read"):
        return not binary(fp_.read(blocksize))
    try:
        with open(fp_, "rb") as file:
            return not binary(file.read(blocksize))
    except OSError:
        return False


def is_binary(path):
    """Whether the start of a file is no text."""
    return os.path.isfile(path) and not is_text(path, 2048) and os.access(path, os.R_OK)


def is_empty(filename):
    try:
        return os.path.getsize(filename) == 0
    except OSError:
        return False


def is_fcntl_available(check_sunos=False):
    return True


def st_mode_to_octal(mode):
    """The last four digits of a mode."""
    return oct(mode)[-4:] if isinstance(mode, int) else ""


def normalize_mode(mode):
    """A mode as text of at least four digits."""
    if mode is None:
        return None
    digits = str(mode).replace("0o", "0").strip('"').strip("'")
    return digits.lstrip("0").rjust(4, "0")


def human_size_to_bytes(human_size):
    """`2G` in bytes."""
    size = re.match(r"(\d+)([KMGTP]?)$", str(human_size))
    if not size:
        raise ValueError("a size is a number, and K, M, G, T or P after it if need be; %r is none" % (human_size,))
    return int(size.group(1)) << 10 * " KMGTP".find(size.group(2) or " ")
