"""Answers halite's requests until it ends the connection."""
import os
import sys

from halite import loader
from halite.wire import Closed, Wire


HERE = {}


def ask(what, *args):
    """For our part of Salt's package: asks halite."""
    return HERE["wire"].ask(what, *args)


def salt():
    """For our part of Salt's package: the execution functions."""
    return HERE["loader"].salt


def main(fd, stream, has_salt):
    sys.argv = ["halite"]
    wire = HERE["wire"] = Wire(fd, stream)
    jobs = HERE["loader"] = loader.Loader(wire, has_salt)
    wire.serve = lambda kind, request: answer(wire, jobs, kind, request)
    wire.write(("ready",))
    try:
        while True:
            kind, request = wire.read()
            wire.serve(kind, request)
    except Closed:
        # Without the interpreter's own end, which would wait for threads of users.
        os._exit(0)


def answer(wire, jobs, kind, request):
    """Answers one request: what has changed since the last one, then what to do."""
    try:
        changes, args = request
        jobs.renew(changes)
        reply = ("ok", getattr(jobs, "do_" + kind)(*args))
    except Closed:
        raise
    except BaseException as error:
        # SystemExit as well: a module that calls sys.exit() has failed, and the next call needs this process.
        reply = ("err", described(error))
    with wire.lock:
        try:
            wire.write(reply)
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            wire.write(("err", described(error)))


def described(error):
    from halite import errors

    return errors.described(error)
