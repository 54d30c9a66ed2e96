"""Exceptions of Salt: their families, texts and attributes."""
import salt.exceptions
from salt.exceptions import CommandExecutionError, CommandNotFoundError, SaltInvocationError


def families():
    names = (
        "SaltException", "CommandExecutionError", "CommandNotFoundError", "SaltInvocationError", "MinionError", "FileserverConfigError",
        "SaltRenderError", "TimedProcTimeoutError", "TimeoutError", "LoaderError", "PkgParseError", "AuthorizationError", "SaltConfigurationError",
    )
    return {name: [base.__name__ for base in getattr(salt.exceptions, name).__mro__[1:-1]] for name in names}


def caught():
    found = []
    for kind in (CommandExecutionError, CommandNotFoundError, SaltInvocationError):
        try:
            raise kind("text of %s" % kind.__name__)
        except salt.exceptions.SaltException as error:
            found.append([type(error).__name__, str(error), error.message, error.strerror])
    return found


def info():
    error = CommandExecutionError("first line", info={"a": 1})
    return {"text": str(error), "message": error.message, "info": error.info, "without": CommandExecutionError("x").info}


def of_native():
    try:
        __salt__["cmd.run"]("true", cwd="/no/such/directory")
    except CommandExecutionError as error:
        return "CommandExecutionError: %s" % error
    return "nothing"


def of_native_invocation():
    try:
        __salt__["test.raise_exception"]("salt.exceptions.SaltInvocationError", "wrong")
    except SaltInvocationError as error:
        return "SaltInvocationError: %s" % error
    except Exception as error:
        return "other: %s: %s" % (type(error).__name__, error)
    return "nothing"
