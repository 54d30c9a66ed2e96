"""`mod_init` runs before the module's first state."""


def mod_init(low):
    __context__["st_init"] = __context__.get("st_init", []) + [low["name"]]
    return True


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": "init: %s" % __context__.get("st_init")}
