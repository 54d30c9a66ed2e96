"""Exceptions that pass through `__salt__`."""
from salt.exceptions import CommandExecutionError


def passed(name="errors.command"):
    return __salt__[name]()


def caught(name="errors.command"):
    try:
        return __salt__[name]()
    except Exception as error:
        return [type(error).__name__, str(error), isinstance(error, CommandExecutionError)]


def caught_all():
    return [caught("errors." + name) for name in ("command", "invocation", "not_found", "own", "key_error", "zero", "of_salt", "type_error")]


def info():
    try:
        __salt__["errors.command_info"]()
    except CommandExecutionError as error:
        return error.info


def native():
    return __salt__["file.readlink"]("/no/such/link")


def native_type():
    return __salt__["test.echo"]()
