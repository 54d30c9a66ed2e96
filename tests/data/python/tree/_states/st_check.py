"""Handles `onlyif` and `unless` itself, and has its own check."""


def mod_run_check(name=None, **kwargs):
    return True


def run(name, onlyif=None):
    return {"name": name, "result": True, "changes": {"ran": True}, "comment": "onlyif: %s" % onlyif}
