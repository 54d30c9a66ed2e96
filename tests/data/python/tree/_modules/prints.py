"""Writes to the standard streams."""
import os
import sys


def out():
    print("printed line")
    return "returned"


def err():
    sys.stderr.write("to stderr\n")
    return "returned"


def raw():
    os.write(1, b"raw line\n")
    return "returned"


def child():
    return os.system("echo from a child")


def replaced():
    import contextlib
    import io

    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print("captured")
    return buffer.getvalue()


def stdin():
    try:
        return sys.stdin.read()
    except Exception as error:
        return type(error).__name__


def argv():
    return [bool(sys.argv), isinstance(sys.executable, str) and sys.version_info[0] == 3]
