"""States that use other states."""
import os


def managed(name, text="by another state"):
    path = os.path.join(__opts__["corpus_dir"], name)
    ret = __states__["file.managed"](name=path, contents=text)
    ret["name"] = name
    ret["comment"] = ret["comment"].replace(__opts__["corpus_dir"], "DIR")
    return ret


def positional(name):
    return __states__["test.succeed_without_changes"](name)


def own(name):
    return __states__["st_plain.changed"](name)


def contains(name):
    found = [one in __states__ for one in ("file.managed", "st_plain.present", "corpus.absent", "st_named.run")]
    return {"name": name, "result": True, "changes": {}, "comment": str(found)}


def missing(name):
    return __states__["corpus.absent"](name)


def test_mode(name):
    path = os.path.join(__opts__["corpus_dir"], name)
    ret = __states__["file.managed"](name=path, contents="x", replace=True)
    return {"name": name, "result": ret["result"], "changes": {}, "comment": "there: %s" % os.path.exists(path)}


def directory(name):
    path = os.path.join(__opts__["corpus_dir"], "d", name)
    ret = __states__["file.directory"](path, makedirs=True)
    return {"name": name, "result": ret["result"], "changes": {}, "comment": "there: %s" % os.path.isdir(path)}
