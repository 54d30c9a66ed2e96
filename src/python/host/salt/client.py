"""Calls functions of this minion."""
from halite.main import salt as _salt


class Caller:
    """As `salt-call`, within the job that runs."""

    def __init__(self, c_path=None, mopts=None):
        from salt.config import minion_config

        self.opts = mopts or minion_config(c_path)

    def cmd(self, fun, *args, **kwargs):
        return _salt()[fun](*args, **kwargs)

    def function(self, fun, *args, **kwargs):
        """The same; text among the arguments is read as on a command line."""
        from salt.utils.args import parse_input

        given, named = parse_input(args, condition=False)
        return _salt()[fun](*given, **{**named, **kwargs})
