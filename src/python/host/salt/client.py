"""Calls functions: of this minion, or on a master of its minions."""
from halite.main import ask as _ask
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


class LocalClient:
    """Publishes jobs of the master that runs this, and waits for their returns."""

    def __init__(self, c_path=None, mopts=None, *args, **kwargs):
        from salt.config import master_config

        self.opts = mopts or master_config(c_path)

    def _ask(self, what, tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, more):
        job = {
            "tgt": tgt, "fun": fun, "arg": list(arg) if isinstance(arg, (list, tuple)) else [arg], "kwarg": dict(kwarg or {}),
            "tgt_type": more.pop("expr_form", tgt_type), "timeout": timeout, "ret": ret, "jid": str(jid or ""),
        }
        return _ask("local", what, job)

    def cmd(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", jid="", full_return=False, kwarg=None, **kwargs):
        """What each minion has returned."""
        found = self._ask("cmd", tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, kwargs)
        return found if full_return else {name: one["ret"] for name, one in found.items()}

    def cmd_iter(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", kwarg=None, **kwargs):
        """The returns one by one, when all are there."""
        for name, one in self._ask("cmd", tgt, fun, arg, tgt_type, timeout, ret, "", kwarg, kwargs).items():
            yield {name: one}

    cmd_iter_no_block = cmd_iter

    def cmd_async(self, tgt, fun, arg=(), tgt_type="glob", ret="", jid="", kwarg=None, **kwargs):
        """The id of a job that is not waited for."""
        return self.run_job(tgt, fun, arg, tgt_type, ret, None, jid, kwarg, **kwargs).get("jid", 0)

    def run_job(self, tgt, fun, arg=(), tgt_type="glob", ret="", timeout=None, jid="", kwarg=None, **kwargs):
        """The id of a job that is not waited for, and the minions that it is for."""
        return self._ask("run_job", tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, kwargs)

    def cmd_subset(self, tgt, fun, arg=(), tgt_type="glob", ret="", kwarg=None, subset=3, cli=False, **kwargs):
        """As `cmd`, for so many of the minions that answer."""
        import random

        there = sorted(self.cmd(tgt, "test.ping", tgt_type=tgt_type))
        random.shuffle(there)
        return self.cmd(there[: kwargs.pop("sub", subset)], fun, arg, tgt_type="list", ret=ret, kwarg=kwarg, **kwargs)

    def get_cache_returns(self, jid):
        """What minions have returned for a job so far."""
        return _ask("local", "returns", {"jid": str(jid)})

    def destroy(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


def get_local_client(c_path=None, mopts=None, *args, **kwargs):
    return LocalClient(c_path, mopts)
