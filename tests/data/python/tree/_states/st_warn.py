"""Warnings and other keys that the engine knows."""


def warnings(name):
    return {"name": name, "result": True, "changes": {}, "comment": "with warnings", "warnings": ["first", "second"]}


def skips_watch(name):
    return {"name": name, "result": True, "changes": {}, "comment": "skips", "skip_watch": True}


def pchanges(name):
    return {"name": name, "result": None, "changes": {}, "pchanges": {"a": "b"}, "comment": "would"}


def sub_state(name):
    def low(one):
        return {"state": "st_warn", "fun": "part", "name": one, "__id__": one, "__sls__": "odd", "__env__": "base"}

    run = [
        {"name": name + "_one", "result": True, "changes": {}, "comment": "first", "low": low(name + "_one"), "duration": 1, "start_time": "10:00:00.000000"},
        {"name": name + "_two", "result": False, "changes": {"x": 1}, "comment": "second", "low": low(name + "_two"), "duration": 2, "start_time": "10:00:00.000000"},
    ]
    return {"name": name, "result": False, "changes": {}, "comment": "has parts", "sub_state_run": run}
