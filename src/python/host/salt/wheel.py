"""Calls wheel functions of the master that runs this."""
from halite.main import ask as _ask


class WheelClient:
    def __init__(self, opts=None, context=None):
        self.opts = opts

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        """What a function returns; with `full_return` whether it was successful, too."""
        done = _ask("wheel", fun, list(arg or ()), dict(kwarg or {}))
        return done if full_return else done["return"]

    def call_func(self, fun, **kwargs):
        return self.cmd(fun, kwarg=kwargs)

    def cmd_sync(self, low, timeout=None, full_return=False):
        from salt.runner import KEYWORDS

        given = {key: value for key, value in low.items() if key not in KEYWORDS}
        done = self.cmd(low["fun"], low.get("arg"), kwarg=dict(given, **(low.get("kwarg") or {})), full_return=True)
        return {"tag": "", "data": done} if full_return else done

    def destroy(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


Wheel = WheelClient
