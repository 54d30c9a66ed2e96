"""Looks at `__opts__['test']`."""


def present(name):
    ret = {"name": name, "changes": {}, "result": None, "comment": ""}
    if __opts__["test"]:
        ret["comment"] = "would be made"
        ret["changes"] = {"made": name}
        return ret
    ret["result"] = True
    ret["comment"] = "made"
    ret["changes"] = {"made": name}
    return ret


def ignores(name):
    """Claims changes in test mode, and success."""
    return {"name": name, "changes": {"a": 1}, "result": True, "comment": "test is %s" % __opts__["test"]}


def module_sees(name):
    return {"name": name, "changes": {}, "result": True, "comment": "module sees %s" % __salt__["use_dunders.test_mode"]()}
