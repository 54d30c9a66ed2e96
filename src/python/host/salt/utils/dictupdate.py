"""Merges maps."""
import copy
from collections import OrderedDict
from collections.abc import Mapping


def update(dest, upd, recursive_update=True, merge_lists=False, strict=False):
    """Merges a map into another, which is changed and returned."""
    if not (isinstance(dest, Mapping) and isinstance(upd, Mapping)):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    for key in list(upd):
        old, new = dest.get(key) if recursive_update else None, upd[key]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            new = update(old, new, merge_lists=merge_lists)
        elif merge_lists and isinstance(old, list):
            if isinstance(new, list):
                new = copy.deepcopy(old) + [one for one in new if one not in old]
            elif strict and isinstance(new, Mapping):
                raise TypeError("the list at key %r cannot be updated with a map" % (key,))
        dest[key] = new
    return dest


def merge_list(obj_a, obj_b):
    """The first map; where the second has a key as well, both values in a list."""
    return {key: [mine, obj_b[key]] if key in obj_b else mine for key, mine in obj_a.items()}


def merge_recurse(obj_a, obj_b, merge_lists=False):
    return update(copy.deepcopy(obj_a), obj_b, merge_lists=merge_lists)


def merge_aggregate(obj_a, obj_b):
    """Maps are merged as a whole; below them, the second value counts."""
    if isinstance(obj_a, Mapping) and isinstance(obj_b, Mapping):
        return OrderedDict([*obj_a.items(), *obj_b.items()])
    return obj_b


def merge_overwrite(obj_a, obj_b, merge_lists=False):
    """Keys of the second map replace those of the first one, which is changed."""
    obj_a.update({key: obj_b[key] for key in obj_b if key in obj_a})
    return merge_recurse(obj_a, obj_b, merge_lists=merge_lists)


def merge(obj_a, obj_b, strategy="smart", renderer="yaml", merge_lists=False):
    """Merges by one of Salt's strategies."""
    if strategy == "smart" and (renderer.startswith("yamlex_") or renderer.endswith("|yamlex") or renderer == "yamlex"):
        strategy = "aggregate"
    if strategy == "list":
        return merge_list(obj_a, obj_b)
    if strategy == "aggregate":
        return merge_aggregate(obj_a, obj_b)
    if strategy == "overwrite":
        return merge_overwrite(obj_a, obj_b, merge_lists)
    return merge_recurse(obj_a, obj_b, merge_lists and strategy in ("smart", "recurse"))


def ensure_dict_key(in_dict, keys, delimiter=":", ordered_dict=False):
    """Makes maps down to a nested key."""
    _descend(in_dict, keys.split(delimiter), ordered_dict)
    return in_dict


def set_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    """Sets a nested key."""
    *path, last = keys.split(delimiter)
    _descend(in_dict, path, ordered_dict)[last] = value
    return in_dict


def update_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    """Updates the map at a nested key."""
    return _change("update", OrderedDict if ordered_dict else dict, in_dict, keys, value, delimiter, ordered_dict)


def append_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    """Appends to the list at a nested key."""
    return _change("append", list, in_dict, keys, value, delimiter, ordered_dict)


def extend_dict_key_value(in_dict, keys, value, delimiter=":", ordered_dict=False):
    """Extends the list at a nested key."""
    return _change("extend", list, in_dict, keys, value, delimiter, ordered_dict)


def _descend(inner, path, ordered):
    for key in path:
        if not isinstance(inner.get(key), dict):
            inner[key] = OrderedDict() if ordered else {}
        inner = inner[key]
    return inner


def _change(how, empty, in_dict, keys, value, delimiter, ordered):
    from salt.exceptions import SaltInvocationError

    *path, last = keys.split(delimiter)
    inner = _descend(in_dict, path, ordered)
    if inner.get(last) is None:
        inner[last] = empty()
    kind = type(inner[last])
    if not hasattr(kind, how):
        raise SaltInvocationError("The last key contains a {}, which cannot {}.".format(kind, how))
    try:
        getattr(inner[last], how)(value)
    except (TypeError, ValueError):
        raise SaltInvocationError("Cannot {} {} with a {}.".format(how, kind, type(value))) from None
    return in_dict
