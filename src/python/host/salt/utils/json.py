"""JSON, from text and bytes, with Salt's arguments."""
import json as _json

JSONEncoder = _json.JSONEncoder


def _with(kwargs):
    return kwargs.pop("_json_module", _json)


def loads(s, **kwargs):
    return _with(kwargs).loads(s, **kwargs)


def load(fp, **kwargs):
    return _with(kwargs).load(fp, **kwargs)


def dumps(obj, **kwargs):
    return _with(kwargs).dumps(obj, **{"ensure_ascii": False, **kwargs})


def dump(obj, fp, **kwargs):
    return _with(kwargs).dump(obj, fp, **{"ensure_ascii": False, **kwargs})


def find_json(s):
    """The first JSON map or list in a text that has other things around it."""
    decoder = _json.JSONDecoder()
    for at in range(len(s)):
        if s[at] in "{[":
            try:
                return decoder.raw_decode(s, at)[0]
            except ValueError:
                continue
    raise ValueError


def import_json():
    return _json
