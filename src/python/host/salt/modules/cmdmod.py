"""The functions of `cmd`, which is called so in Salt's package."""


def __getattr__(name):
    from halite.main import salt

    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return salt()["cmd." + name]
    except KeyError:
        raise AttributeError("halite's cmd has no %s" % name) from None


def _call(name, cmd, kwargs):
    return __getattr__(name)(cmd, **{"output_loglevel": "quiet", "ignore_retcode": True, **kwargs})


def _run_quiet(cmd, **kwargs):
    """`cmd.run` that logs nothing."""
    return _call("run", cmd, kwargs)


def _run_all_quiet(cmd, **kwargs):
    """`cmd.run_all` that logs nothing."""
    return _call("run_all", cmd, kwargs)


def _retcode_quiet(cmd, **kwargs):
    """`cmd.retcode` that logs nothing."""
    return _call("retcode", cmd, kwargs)
