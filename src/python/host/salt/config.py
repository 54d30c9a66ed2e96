"""Configuration: that of the minion which runs this, whatever file is named."""
import copy as _copy

from halite.main import HERE as _HERE


def minion_config(path=None, *args, **kwargs):
    """A copy of `__opts__`."""
    return _copy.deepcopy(_HERE["loader"].opts)


client_config = master_config = mminion_config = minion_config


def get_id(opts=None, cache_minion_id=False):
    """The minion's id, and whether it was made from an address: it never is."""
    return _HERE["loader"].opts["id"], False
