"""What is wrong with users' files, without running them."""
import importlib.util


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
