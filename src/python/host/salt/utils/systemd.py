"""Whether systemd runs here, and which. Answers are kept in a map if one is given."""
import os
import subprocess


def _kept(ask):
    key = "salt.utils.systemd." + ask.__name__

    def inner(context=None):
        if context is not None and not hasattr(context, "setdefault"):
            from salt.exceptions import SaltInvocationError

            raise SaltInvocationError("context must be a dictionary if passed")
        if context is None:
            return ask(None)
        if key not in context:
            value = ask(context)
            if value is None:
                return None
            context[key] = value
        return context[key]

    inner.__name__, inner.__doc__ = ask.__name__, ask.__doc__
    return inner


@_kept
def booted(context=None):
    """Whether this system was started with systemd."""
    return os.path.exists("/run/systemd/system")


@_kept
def offline(context=None):
    """Whether there is a systemctl, but no systemd that runs."""
    from salt.utils.path import which

    return not booted(context) and which("systemctl")


@_kept
def version(context=None):
    """The number of systemd's version."""
    try:
        words = subprocess.run(["systemctl", "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.split()
    except OSError:
        return None
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def has_scope(context=None):
    """Whether `systemd-run --scope` works."""
    return bool(booted(context)) and (version(context) or 0) >= 205
