"""A module for a program that is not there."""
import salt.utils.path


def __virtual__():
    if salt.utils.path.which("no-such-program-of-corpus"):
        return True
    return (False, "The no-such-program-of-corpus binary was not found.")


def version():
    return __salt__["cmd.run"]("no-such-program-of-corpus --version")
