"""States that raise."""
import sys

from salt.exceptions import CommandExecutionError, CommandNotFoundError, SaltInvocationError


def value(name):
    raise ValueError("of %s" % name)


def command(name):
    raise CommandExecutionError("command of %s" % name)


def invocation(name):
    raise SaltInvocationError("invocation of %s" % name)


def not_found(name):
    raise CommandNotFoundError("not found")


def key(name):
    return {}["absent"]


def wrong_type(name):
    return len(4)


def leave(name):
    sys.exit(2)


def of_module(name):
    return __salt__["errors.command"]()


def of_absent_module(name):
    return __salt__["corpus.absent"](name)


def caught(name):
    try:
        __salt__["errors.command"]()
    except CommandExecutionError as error:
        return {"name": name, "result": False, "changes": {}, "comment": "caught: %s" % error}
