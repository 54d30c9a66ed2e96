"""`mod_init` that says it was for nothing, so it is asked again."""


def mod_init(low):
    __context__["st_init_false"] = __context__.get("st_init_false", 0) + 1
    return False


def run(name):
    return {"name": name, "result": True, "changes": {}, "comment": "init: %s" % __context__.get("st_init_false")}
