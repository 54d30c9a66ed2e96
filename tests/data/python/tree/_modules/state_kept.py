"""Globals of a module live for the job."""
SEEN = []
_cache = None


def add(value):
    SEEN.append(value)
    return list(SEEN)


def twice():
    add("direct")
    __salt__["state_kept.add"]("through salt")
    return SEEN


def cached():
    global _cache
    if _cache is None:
        _cache = {"made": 1}
    _cache["asked"] = _cache.get("asked", 0) + 1
    return dict(_cache)


def cached_twice():
    return [cached(), cached()]
