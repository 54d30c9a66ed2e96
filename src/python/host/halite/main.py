"""Answers halite's requests until it ends the connection."""
import os
import sys

from halite import loader
from halite.afterwards import after
from halite.wire import PID, Closed, Wire


HERE = {}


def ask(what, *args):
    """For our part of Salt's package: asks halite."""
    return HERE["wire"].ask(what, *args)


def salt():
    """For our part of Salt's package: the execution functions."""
    return HERE["loader"].salt


def main(fd, life, has_salt):
    sys.argv = ["halite"]
    wire = HERE["wire"] = Wire(fd)
    jobs = HERE["loader"] = loader.Loader(wire, has_salt)
    if "logging" not in sys.modules:
        after("logging", lambda _: jobs.log())
    if has_salt:
        from halite import places

        places.guard(wire)
    depth = [0]
    wire.serve = lambda kind, request: answer(wire, jobs, kind, request, depth)
    # A child that a function forks has neither the connection nor a part in the life of this process.
    os.register_at_fork(after_in_child=lambda: (os.close(fd), os.close(life)))
    wire.write(("ready",))
    try:
        while True:
            wire.rest()
            message = wire.read()
            # Answers to questions that nobody waits for any more are passed over.
            if message[0] not in ("ok", "err"):
                wire.serve(*message)
    except Closed:
        # Without the interpreter's own end, which would wait for threads of users.
        os._exit(0)


def answer(wire, jobs, kind, request, depth):
    """Answers one request: what has changed since the last one, then what to do."""
    depth[0] += 1
    before = None
    try:
        changes, args = request
        if depth[0] > 1:
            before = jobs.scene(changes)
        jobs.renew(changes)
        reply = ("ok", getattr(jobs, "do_" + kind)(*args))
    except Closed:
        raise
    except BaseException as error:
        if os.getpid() != PID:
            # The end of a child that a function has forked.
            os._exit(error.code if isinstance(getattr(error, "code", None), int) else 1)
        # SystemExit as well: a module that calls sys.exit() has failed, and the next call needs this process.
        reply = ("err", described(error))
    finally:
        depth[0] -= 1
    if os.getpid() != PID:
        os._exit(0)
    if before:
        jobs.renew(before)
    with wire.lock:
        try:
            wire.write(reply)
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            wire.write(("err", described(error)))


def described(error):
    from halite import errors

    return errors.described(error)
