"""What is wrong with users' files, without running them."""
import importlib.util
import sys


def without_salt(is_expected):
    """What is wrong with the Python of `legacy_salt`."""
    try:
        if is_expected:
            import salt.version
        return []
    except ImportError as error:
        return ["legacy_salt: %s has no Salt: %s; name an environment where Salt is installed" % (sys.executable, error)]


def broken(kinds):
    """One line for each file that Python does not understand."""
    faults = []
    for kind in kinds.values():
        for path, _ in kind.files.values():
            try:
                with open(path, "rb") as file:
                    compile(importlib.util.decode_source(file.read()), path, "exec", dont_inherit=True)
            except SyntaxError as error:
                faults.append("%s: %s, line %s" % (path, error.msg, error.lineno))
            except (OSError, ValueError, MemoryError, RecursionError) as error:
                faults.append("%s: %s" % (path, error or type(error).__name__))
    return faults
