"""Calls runner functions of the master that runs this."""
from halite.main import HERE as _HERE
from halite.main import ask as _ask


class RunnerClient:
    def __init__(self, opts=None, context=None):
        self.opts = opts

    @property
    def functions(self):
        return _HERE["loader"].runners

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        """What a function returns."""
        value = self.functions[fun](*(arg or ()), **(kwarg or {}))
        return {"return": value, "success": True} if full_return else value

    def cmd_sync(self, low, timeout=None, full_return=False):
        """The same, from a map with `fun`, `arg` and `kwarg`, or with the arguments beside `fun`."""
        given = {key: value for key, value in low.items() if key not in KEYWORDS}
        return self.cmd(low["fun"], low.get("arg"), kwarg=dict(given, **(low.get("kwarg") or {})), full_return=full_return)

    def cmd_async(self, low):
        """Starts a function in a process of its own; returns the id and the tag of its events."""
        given = {key: value for key, value in low.items() if key not in KEYWORDS}
        jid = _ask("runner_async", low["fun"], list(low.get("arg") or ()), dict(given, **(low.get("kwarg") or {})))
        return {"jid": jid, "tag": "salt/run/" + jid}

    def destroy(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


KEYWORDS = ("fun", "arg", "kwarg", "client", "eauth", "username", "password", "token", "full_return")
