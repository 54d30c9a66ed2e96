"""Runs `salt-call` many times in children of one process, for stock.py.

The process has imported Salt and made a minion, with its grains, pillar and loaders, as `salt-call` does at its beginning; each
child goes on from there with arguments of its own, so what modules load and keep is its own, too. (The calls about logs, and
all of them with `--cold`, have processes of their own.) Requests come one a line: arguments, and paths for the three standard
streams. The answer is the exit status.
"""

import json
import os
import sys
import warnings

warnings.simplefilter("ignore")


class Ready(BaseException):
    """The minion is made."""


def prepare(argv):
    """The minion that `salt-call` with these arguments makes."""
    import salt._logging
    import salt.cli.call  # noqa: F401
    import salt.cli.caller
    import salt.minion
    import salt.modules.state  # noqa: F401
    import salt.output
    import salt.scripts
    import salt.state  # noqa: F401

    made = []
    original = salt.minion.SMinion

    class Stopping(original):
        def __init__(self, opts, *args, **kwargs):
            super().__init__(opts, *args, **kwargs)
            self.__class__ = original
            made.append(self)
            raise Ready()

    salt.minion.SMinion = Stopping
    sys.argv = argv
    try:
        salt.scripts.salt_call()
    except Ready:
        pass
    minion = made[0]

    def again(opts, *args, **kwargs):
        for key in ("grains", "pillar"):
            opts[key] = minion.opts[key]
        return minion

    salt.minion.SMinion = again
    # It is set up already, to be quiet.
    for name in ("set_logging_options_dict", "freeze_logging_options_dict", "setup_logging"):
        if hasattr(salt._logging, name):
            setattr(salt._logging, name, lambda *args, **kwargs: None)
    return salt.scripts.salt_call


def child(call, request):
    for fd, key, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_WRONLY | os.O_APPEND), (2, "stderr", os.O_WRONLY | os.O_APPEND)):
        opened = os.open(request[key], flags)
        os.dup2(opened, fd)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)
    # The directory of this script is not where a program's modules are.
    sys.path[0] = os.path.dirname(request["argv"][0])
    sys.argv = request["argv"]
    call()


def main():
    call = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        call = call or prepare(request["argv"])
        pid = os.fork()
        if pid == 0:
            # It ends as any program does: sys.exit, uncaught exceptions, threads and what is registered for the end.
            return child(call, request)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write("%d\n" % status)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
