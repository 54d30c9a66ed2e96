"""Makes plain data of what functions return: what halite can keep and send."""


def plain(value, depth=0):
    """The same in types that `marshal` knows: subclasses become their base, anything unknown its text."""
    kind = type(value)
    if kind in (str, int, float, bool, bytes, type(None)):
        return value
    if depth > 150:
        raise ValueError("the value is nested too deeply, or contains itself")
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, dict) or hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return {key(k): plain(value[k], depth + 1) for k in value.keys()}
    if isinstance(value, (list, tuple, set, frozenset)) or kind.__name__ in VIEWS:
        return [plain(one, depth + 1) for one in value]
    for base in (str, int, float, bytes):
        if isinstance(value, base):
            return base(value) if base is not str else str.__str__(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    # Times as Salt writes them for people; anything else as Salt's outputters show it.
    return str(value) if kind.__name__ in ("datetime", "date", "time") else repr(value)


VIEWS = ("dict_keys", "dict_values", "dict_items", "odict_keys", "odict_values", "odict_items", "deque", "map", "filter", "range", "zip")


def key(value):
    value = plain(value)
    return tuple(value) if isinstance(value, list) else value


def collected(generator):
    """What a generator function returns in a job: maps are merged, anything else is listed."""
    result = None
    for one in generator:
        if isinstance(one, dict) and isinstance(result, dict):
            result.update(one)
        elif isinstance(one, dict) and not result:
            result = dict(one)
        elif isinstance(result, list):
            result.append(one)
        else:
            result = [one] if not result else [result, one]
    return result
