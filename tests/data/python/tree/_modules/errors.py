"""Exceptions of each kind."""
import sys

import salt.exceptions
from salt.exceptions import CommandExecutionError, CommandNotFoundError, SaltInvocationError


class Own(Exception):
    pass


class Speaking(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code

    def __str__(self):
        return "spoken %s" % self.code


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class OfSalt(CommandExecutionError):
    pass


def command():
    raise CommandExecutionError("the command failed")


def command_info():
    raise CommandExecutionError("the command failed", info={"retcode": 2, "stderr": "why"})


def command_info_list():
    raise CommandExecutionError("many failed", info=["one", "two"])


def command_empty():
    raise CommandExecutionError()


def invocation():
    raise SaltInvocationError("called wrongly")


def not_found():
    raise CommandNotFoundError("no such command")


def of_salt():
    raise OfSalt("a subclass")


def salt_exception():
    raise salt.exceptions.SaltException("the base")


def minion_error():
    raise salt.exceptions.MinionError("of the minion")


def type_error():
    raise TypeError("a type error of its own")


def type_error_inside():
    return len(5)


def value_error():
    raise ValueError("bad value")


def key_error():
    return {}["missing key"]


def index_error():
    return [][1]


def attribute_error():
    return None.attribute


def name_error():
    return not_defined_anywhere


def zero():
    return 1 / 0


def os_error():
    return open("/no/such/file")


def unicode_error():
    return b"\xff".decode("utf-8")


def assertion():
    assert 1 == 2, "one is not two"


def not_implemented():
    raise NotImplementedError


def import_error():
    import corpus_is_not_installed


def own():
    raise Own("an own class")


def speaking():
    raise Speaking(7, "seven")


def mute():
    raise Mute()


def chained():
    try:
        {}["inner"]
    except KeyError as error:
        raise RuntimeError("outer") from error


def multiline():
    raise ValueError("first line\nsecond line")


def unicode_text():
    raise ValueError("grüße \u4f60")


def exit_number():
    sys.exit(3)


def exit_text():
    sys.exit("leaving")


def exit_none():
    raise SystemExit


def stop():
    raise StopIteration("stop")


def timeout():
    raise salt.exceptions.TimedProcTimeoutError("too slow")


def recursion():
    return recursion()


def recursion_caught():
    try:
        return recursion()
    except RecursionError as error:
        return type(error).__name__


def group():
    raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
