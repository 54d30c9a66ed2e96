"""An execution module that runs states and reads what they said."""
import os


def apply_sls():
    ret = __salt__["state.apply"]("plain")
    if not isinstance(ret, dict):
        return ret
    return sorted([one["__id__"], one["result"]] for one in ret.values())


def managed():
    path = os.path.join(__opts__["corpus_dir"], "by_state")
    ret = __salt__["state.single"]("file.managed", name=path, contents="by a module")
    one = list(ret.values())[0]
    return [one["result"], __salt__["file.read"](path)]


def tested():
    ret = __salt__["state.single"]("st_test.present", name="t", test=True)
    return [[one["result"], one["comment"]] for one in ret.values()]


def dunder():
    return "__states__" in globals()
