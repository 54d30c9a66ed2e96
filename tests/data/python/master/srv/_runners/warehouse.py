"""Runners of a warehouse: jobs on minions, other runners, wheel functions, events."""
import logging

import salt.client
import salt.runner
import salt.utils.event
import salt.wheel
from salt.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__func_alias__ = {"list_": "list"}


def list_():
    """What there is."""
    return ["apples", "nails"]


def price(item, count=1, **kwargs):
    """Arguments of all kinds."""
    return {"item": item, "count": count, "more": {key: kwargs[key] for key in sorted(kwargs) if not key.startswith("__")}}


def minions(tgt="*"):
    """What minions say."""
    client = salt.client.get_local_client(__opts__["conf_file"])
    said = client.cmd(tgt, "test.arg", ["a", 1], kwarg={"k": "v"}, timeout=20)
    for one in said.values():
        one["kwargs"] = {key: value for key, value in one["kwargs"].items() if not key.startswith("__pub")}
    return said


def grains_of(tgt):
    client = salt.client.LocalClient(__opts__["conf_file"])
    found = {}
    for one in client.cmd_iter(tgt, "grains.get", ["id"], tgt_type="list", timeout=20):
        for name, said in one.items():
            found[name] = said["ret"]
    return found


def later(tgt):
    """A job that nobody waits for here; its result is looked for in the job cache."""
    import time

    client = salt.client.LocalClient(__opts__["conf_file"])
    jid = client.cmd_async(tgt, "test.echo", ["soon"])
    for _ in range(200):
        found = client.get_cache_returns(jid)
        if found:
            return {name: one["ret"] for name, one in found.items()}
        time.sleep(0.1)
    return None


def nobody():
    client = salt.client.LocalClient(__opts__["conf_file"])
    return client.cmd("no-such-minion", "test.ping", timeout=2)


def other():
    """Another runner, by both ways."""
    ran = salt.runner.RunnerClient(__opts__).cmd("test.arg", ["x"], kwarg={"y": 1}, print_event=False)
    return [__salt__["test.arg"]("z"), ran, __salt__["warehouse.list"]()]


def keys():
    """A wheel function."""
    found = salt.wheel.WheelClient(__opts__).cmd("key.list", ["accepted"], print_event=False)
    return found


def own_wheel():
    return salt.wheel.WheelClient(__opts__).cmd("stamps.press", ["blue"], print_event=False)


def tell(tag):
    """An event on the master's bus."""
    event = salt.utils.event.get_event("master", sock_dir=__opts__["sock_dir"], opts=__opts__, listen=False)
    return event.fire_event({"told": True}, tag)


def util():
    return __utils__["boxes.pack"]("x")


def refuse():
    raise CommandExecutionError("there is nothing left")


def wrong():
    raise SaltInvocationError("that is no way to ask")


def broken():
    return {}["missing"]


def code():
    __context__["retcode"] = 3
    return "failed"


def role():
    return [__opts__["__role"], __opts__["id"] == __opts__.get("id"), "warehouse.list" in __salt__, "no.such" in __salt__]


def shown():
    return {"outputter": "nested", "data": {"apples": 3}}


def slowly():
    __jid_event__.fire_event({"half": True}, "progress")
    return [__user__, __tag__ == "salt/run/" + __jid__]
