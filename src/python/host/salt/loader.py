"""What Salt's loader hands out: functions and data of the job that runs. Options that are given are not looked at."""
from halite.main import HERE as _HERE


def _loader():
    return _HERE["loader"]


def minion_mods(opts=None, *args, **kwargs):
    """`__salt__`"""
    return _loader().salt


def runner(opts=None, *args, **kwargs):
    """The runner functions of the master that runs this."""
    return _loader().runners


def utils(opts=None, *args, **kwargs):
    """`__utils__`"""
    return _loader().utils


def states(opts=None, *args, **kwargs):
    """`__states__`"""
    return _loader().states


def grains(opts=None, *args, **kwargs):
    """`__grains__`"""
    return _loader().grains


def raw_mod(opts, name, functions=None, mod="modules", **kwargs):
    """The execution or state functions of one module, by full name."""
    all_functions = states() if mod == "states" else minion_mods()
    return {full: all_functions[full] for full in all_functions if full.partition(".")[0] == name}
