"""What a state knows of itself."""
from collections.abc import Mapping


def _told(name, value):
    return {"name": name, "result": True, "changes": {}, "comment": value if isinstance(value, str) else repr(value)}


def where(name):
    return _told(name, [__env__, __low__["__sls__"], __low__["__id__"], __low__["__env__"]])


def sls(name):
    """There is no such dunder in states."""
    return _told(name, __sls__)


def own_id(name):
    """Nor this."""
    return _told(name, __id__)


def low(name, **kwargs):
    return _told(name, sorted(__low__))


def low_values(name, **kwargs):
    return _told(name, [__low__["state"], __low__["fun"], __low__["name"], __low__["__id__"], __low__.get("extra")])


def running(name):
    return _told(name, sorted(__running__))


def running_values(name):
    return _told(name, [[tag.split("_|-")[1], ret["result"], sorted(ret)] for tag, ret in __running__.items()])


def instance(name):
    return _told(name, [isinstance(__instance_id__, str), bool(__instance_id__)])


def lowstate(name):
    return _told(name, [one["__id__"] for one in __lowstate__])


def reqs(name, **kwargs):
    return _told(name, {kind: [one["__id__"] for one in found] for kind, found in dict(__reqs__).items()})


def names(name):
    found = ["__salt__", "__states__", "__opts__", "__grains__", "__pillar__", "__context__", "__utils__", "__proxy__", "__env__", "__sls__", "__id__",
             "__low__", "__running__", "__instance_id__", "__lowstate__", "__reqs__", "__orchestration_jid__"]
    return _told(name, [one for one in found if one in globals()])


def known(name):
    return _told(name, [__opts__["id"], __grains__["kernel"], __pillar__["corpus"]["name"], isinstance(__pillar__, Mapping)])


def context(name):
    __context__["st_dunders"] = __context__.get("st_dunders", []) + [name]
    return _told(name, __context__["st_dunders"])


def context_of_module(name):
    __context__["corpus_shared"] = "by the state"
    return _told(name, __salt__["use_context.shared"]())


def utils(name):
    return _told(name, __utils__["corpus_tools.join"]("a", "b"))


def modules(name):
    return _told(name, [__salt__["shape_plain.greet"]("state"), __salt__["test.ping"]()])
