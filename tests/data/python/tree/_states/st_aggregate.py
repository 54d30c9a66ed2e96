"""`mod_aggregate` takes names of later states."""


def mod_aggregate(low, chunks, running):
    names = []
    for chunk in chunks:
        if chunk.get("state") == "st_aggregate" and chunk.get("fun") == low["fun"] and not chunk.get("__agg__"):
            names.append(chunk["name"])
            chunk["__agg__"] = True
    low["together"] = sorted(set(names + low.get("together", [])))
    return low


def gather(name, together=None, **kwargs):
    return {"name": name, "result": True, "changes": {}, "comment": "together: %s" % together}
