"""Calls functions: of this minion, or on a master of its minions."""
import time as _time

from halite.main import ask as _ask
from halite.main import salt as _salt

NO_RESPONSE = (
    "Minion did not return. [No response]\nThe minions may not have all finished running and any remaining minions will return "
    "upon completion. To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid %s"
)


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

    def __init__(self, c_path=None, mopts=None, skip_perm_errors=False, io_loop=None, keep_loop=False, auto_reconnect=False, listen=False):
        from salt.config import master_config

        self.opts = mopts or master_config(c_path)
        self.auto_reconnect, self.listen = auto_reconnect, listen
        self._event = self._bus() if listen else None

    def _bus(self, listen=True):
        from salt.utils.event import get_event

        return get_event("master", opts=self.opts, listen=listen)

    @property
    def event(self):
        """The master's events; it listens after `connect_pub`, or with `listen` from the beginning."""
        if self._event is None:
            self._event = self._bus(False)
        return self._event

    def _ask(self, what, tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, more):
        job = {
            "tgt": tgt, "fun": fun, "arg": list(arg) if isinstance(arg, (list, tuple)) else [arg], "kwarg": dict(kwarg or {}),
            "tgt_type": more.get("expr_form", tgt_type), "timeout": self._seconds(timeout, None), "ret": ret, "jid": str(jid or ""),
            "expect_minions": bool(more.get("expect_minions", True)),
        }
        return _ask("local", what, job)

    def _seconds(self, timeout, usual):
        """A number of seconds, which may be text."""
        try:
            return usual if timeout is None else max(0, int(timeout))
        except (TypeError, ValueError):
            return usual

    def _patience(self, timeout):
        return self._seconds(timeout, self.opts.get("timeout", 5))

    def cmd(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", jid="", full_return=False, kwarg=None, **kwargs):
        """What each minion has returned; for minions that do not return what a command line shows in their place."""
        found = self._ask("cmd", tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, kwargs)
        jids = [one["jid"] for one in found.values() if one.get("jid")]
        told = {name: no_response(one.get("jid") or "".join(jids[:1])) if one.get("failed") else one for name, one in found.items()}
        return told if full_return else {name: one.get("ret") for name, one in told.items()}

    def _run(self, tgt, fun, arg, timeout, tgt_type, ret, kwarg, block, more):
        """The returns of a job of its own, as they come; first the job."""
        bus = self._bus()
        try:
            job = self.run_job(tgt, fun, arg, tgt_type, ret, timeout, more.get("jid", ""), kwarg)
            yield job
            if job:
                yield from self._returns(bus, job["jid"], job["minions"], timeout, block, more)
        finally:
            bus.destroy()

    def _returns(self, bus, jid, minions, timeout, block=True, more={}):
        """Returns of a job as they come on a bus; None in between unless `block`. It ends when all are there, or when
        those minions that are missing do not run the job any more."""
        # As a list: it tells which minions have not returned in the end.
        waiting = set([minions] if isinstance(minions, str) else minions)
        found, timeout = set(), self._patience(timeout)
        until, looked = _time.monotonic() + timeout, 0
        is_last = False
        while waiting:
            event = bus.get_event(0.1, "salt/job/%s/ret/" % jid, True, "startswith", not block or is_last) if bus.cpub else None
            fresh = [event] if event else []
            if not event and (is_last or not bus.cpub and _time.monotonic() - looked > 0.2):
                looked = _time.monotonic()
                fresh = [{"tag": "salt/job/%s/ret/%s" % (jid, name), "data": one} for name, one in self._cached(jid).items()]
            for one in fresh:
                data = one["data"]
                if data.get("id") in found or "return" not in data:
                    continue
                found.add(data["id"])
                waiting.discard(data["id"])
                yield one if more.get("raw") else {data["id"]: shown(data)}
            if event or not waiting:
                continue
            if is_last:
                break
            if _time.monotonic() >= until:
                is_last = not self._running(jid, waiting, more)
                until = _time.monotonic() + timeout
            elif not block:
                yield None
                _time.sleep(0.01)
            elif not bus.cpub:
                _time.sleep(0.1)
        if more.get("expect_minions"):
            for name in sorted(waiting):
                yield {name: {"failed": True}}

    def _running(self, jid, minions, more):
        """Whether one of the minions says that it runs a job."""
        patience = more.get("gather_job_timeout", self.opts.get("gather_job_timeout", 10))
        said = self._ask("cmd", sorted(minions), "saltutil.find_job", [jid], "list", patience, "", "", None, {"expect_minions": False})
        return any(isinstance(one.get("ret"), dict) and one["ret"] for one in said.values())

    def _cached(self, jid):
        """Events for what the job cache has."""
        return {name: {**one, "id": name, "jid": jid, "return": one.get("ret")} for name, one in self.get_cache_returns(jid).items()}

    def cmd_iter(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", kwarg=None, **kwargs):
        """Returns as they come, `{id: {"ret": ...}}`; `expect_minions` adds `{"failed": True}` for those that do not return."""
        run = self._run(tgt, fun, arg, timeout, kwargs.get("expr_form", tgt_type), ret, kwarg, True, kwargs)
        job = next(run)
        if not job or kwargs.get("yield_pub_data"):
            yield job
        yield from run

    def cmd_iter_no_block(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", kwarg=None, show_jid=False, verbose=False, **kwargs):
        """The same, with None while nothing has come."""
        run = self._run(tgt, fun, arg, timeout, kwargs.get("expr_form", tgt_type), ret, kwarg, False, kwargs)
        job = next(run)
        if not job:
            yield job
        for one in run:
            if one and (show_jid or verbose) and not kwargs.get("raw"):
                for name in one:
                    one[name]["jid"] = job["jid"]
            yield one

    def cmd_cli(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", verbose=False, kwarg=None, progress=False, **kwargs):
        """Returns as they come; for minions that do not return what a command line shows in their place."""
        more = dict({"expect_minions": True}, **kwargs)
        run = self._run(tgt, fun, arg, timeout, kwargs.get("expr_form", tgt_type), ret, kwarg, True, more)
        self.pub_data = next(run)
        if not self.pub_data:
            yield self.pub_data
        count = 0
        for one in run:
            count += 1
            for name, told in one.items():
                if told.get("failed"):
                    told = no_response(self.pub_data["jid"])
                elif progress:
                    yield {"minion_count": len(self.pub_data["minions"]), "return_count": count}
                yield {name: told}

    def cmd_full_return(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", verbose=False, kwarg=None, **kwargs):
        """What each minion has returned, with `success` and, if there is one, the outputter."""
        run = self._run(tgt, fun, arg, timeout, kwargs.get("expr_form", tgt_type), ret, kwarg, True, {"raw": True})
        job = next(run)
        found = {}
        for one in run:
            data = one["data"]
            found[data["id"]] = {"ret": data["return"], "success": data.get("success", False)}
            if "out" in data:
                found[data["id"]]["out"] = data["out"]
        if job and verbose:
            for name in sorted(set(job["minions"]) - set(found)):
                found[name] = {"out": "no_return", "ret": "Minion did not return"}
        return found

    def cmd_batch(self, tgt, fun, arg=(), tgt_type="glob", ret="", kwarg=None, batch="10%", **kwargs):
        """Returns, `{id: return}`, of a job that so many minions run at a time; the next ones when all of these are done."""
        opts = {key: kwargs[key] for key in ("timeout", "gather_job_timeout") if key in kwargs}
        there = sorted(self.cmd(tgt, "test.ping", tgt_type=kwargs.get("expr_form", tgt_type), expect_minions=False, **opts))
        size = places(batch, len(there))
        if size is None:
            from salt.exceptions import SaltInvocationError

            raise SaltInvocationError("Invalid batch specification %r: must be an integer or percentage string like '10' or '25%%'." % (batch,))
        raw = bool(kwargs.get("raw"))
        failhard = kwargs.get("failhard", self.opts.get("failhard", False))
        for start in range(0, len(there), size):
            if start:
                _time.sleep(float(kwargs.get("batch_wait", 0)))
            failed = False
            missing = set(there[start : start + size])
            for one in self.cmd_iter(sorted(missing), fun, arg, tgt_type="list", ret=ret, kwarg=kwarg, raw=raw, **opts):
                for name, told in ({one["data"]["id"]: one["data"]} if raw else one).items():
                    missing.discard(name)
                    failed = failed or bool(told.get("retcode"))
                    yield one if raw else {name: told["ret"]}
            for name in sorted(missing):
                yield {"data": {"id": name, "return": {}, "retcode": 0}} if raw else {name: {}}
            if failed and failhard:
                return

    def cmd_async(self, tgt, fun, arg=(), tgt_type="glob", ret="", jid="", kwarg=None, **kwargs):
        """The id of a job that is not waited for."""
        return self.run_job(tgt, fun, arg, tgt_type, ret, None, jid, kwarg, **kwargs).get("jid", 0)

    def run_job(self, tgt, fun, arg=(), tgt_type="glob", ret="", timeout=None, jid="", kwarg=None, listen=False, **kwargs):
        """The id of a job that is not waited for, and the minions that it is for. With `listen`, `event` has its returns."""
        if listen:
            self.event.connect_pub()
        job = self._ask("run_job", tgt, fun, arg, tgt_type, timeout, ret, jid, kwarg, kwargs)
        if listen and job:
            self.event.subscribe("salt/job/%s" % job["jid"])
        return job

    def cmd_subset(self, tgt, fun, arg=(), tgt_type="glob", ret="", kwarg=None, subset=3, cli=False, progress=False, full_return=False, **kwargs):
        """As `cmd`, or with `cli` as `cmd_cli`, for so many of the minions that have the function."""
        import random

        subset = kwargs.pop("sub", subset)
        tgt_type = kwargs.pop("expr_form", tgt_type)
        able = self.cmd(tgt, "sys.list_functions", tgt_type=tgt_type, **dict(kwargs, expect_minions=False))
        there = [name for name, has in able.items() if isinstance(has, list) and fun in has]
        random.shuffle(there)
        if cli:
            return self.cmd_cli(there[:subset], fun, arg, tgt_type="list", ret=ret, kwarg=kwarg, progress=progress, **kwargs)
        return self.cmd(there[:subset], fun, arg, tgt_type="list", ret=ret, kwarg=kwarg, full_return=full_return, **kwargs)

    def get_cache_returns(self, jid):
        """What minions have returned for a job so far."""
        return _ask("local", "returns", {"jid": str(jid)})

    def _follow(self, jid, minions, timeout, more={}, block=True):
        """The returns of a job: those that are there, then those that come. It begins to listen at once."""
        was_listening = self.event.connect_pub() if self.event.cpub else not self.event.connect_pub()

        def returns():
            try:
                cached = self._cached(jid)
                for data in cached.values():
                    yield {"tag": "salt/job/%s/ret/%s" % (jid, data["id"]), "data": data} if more.get("raw") else {data["id"]: shown(data)}
                missing = set([minions] if isinstance(minions, str) else minions) - set(cached)
                yield from self._returns(self.event, jid, missing, timeout, block, more)
            finally:
                self.event.unsubscribe("salt/job/%s" % jid)
                if not was_listening:
                    self.event.close_pub()

        return returns()

    def get_iter_returns(self, jid, minions, timeout=None, tgt="*", tgt_type="glob", expect_minions=False, block=True, **kwargs):
        """The returns of a job as they come, `{id: {"ret": ...}}`."""
        return self._follow(jid, minions, timeout, dict(kwargs, expect_minions=expect_minions), block)

    def get_cli_returns(self, jid, minions, timeout=None, tgt="*", tgt_type="glob", verbose=False, show_jid=False, **kwargs):
        """The returns of a job: in one map those that are there, then those that come."""
        there = {name: {"ret": one.get("ret")} for name, one in self.get_cache_returns(jid).items()}
        if there:
            yield there
        if set(minions) - set(there):
            for one in self._follow(jid, minions, timeout):
                if set(one) - set(there):
                    yield one

    def get_event_iter_returns(self, jid, minions, timeout=None):
        """The returns of a job as they come."""
        return self._follow(jid, minions, timeout)

    def get_returns(self, jid, minions, timeout=None):
        """The returns of a job, when all are there or no more are to come."""
        return {name: one["ret"] for found in self._follow(jid, minions, timeout) for name, one in found.items()}

    def get_full_returns(self, jid, minions, timeout=None):
        """The same, each as `{"ret": ...}`."""
        return {name: one for found in self._follow(jid, minions, timeout) for name, one in found.items()}

    def destroy(self):
        if self._event is not None:
            self._event.destroy()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.destroy()


def no_response(jid):
    """What stands in the place of the return of a minion that does not return."""
    return {"out": "no_return", "ret": NO_RESPONSE % jid, "retcode": 1}


def shown(data):
    """What clients tell of a return."""
    return {"ret": data["return"], **{key: data[key] for key in ("out", "retcode", "jid") if key in data}}


def places(batch, count):
    """How many of so many minions are a batch: `3`, `25%` or `%25`, one at least; None for what is none of these."""
    text = str(batch)
    try:
        return max(1, int(float(text.strip("%")) / 100 * count) if "%" in text else int(text))
    except ValueError:
        return None


def get_local_client(c_path=None, mopts=None, skip_perm_errors=False, io_loop=None, auto_reconnect=False, listen=False):
    return LocalClient(c_path, mopts, auto_reconnect=auto_reconnect, listen=listen)
