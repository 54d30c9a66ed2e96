"""Imports a native execution module: only with Salt's own files."""
import salt.modules.cmdmod


def has():
    return hasattr(salt.modules.cmdmod, "run")
