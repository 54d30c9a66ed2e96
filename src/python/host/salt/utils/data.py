"""Nested data."""
import fnmatch as _fnmatch
from collections import OrderedDict as _OrderedDict
from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from collections.abc import MutableMapping as _MutableMapping

from salt.defaults import DEFAULT_TARGET_DELIM


class CaseInsensitiveDict(_MutableMapping):
    """A map whose keys are found in any case, and shown as they were set last."""

    def __init__(self, init=None, **kwargs):
        self._items = {}
        self.update(init or {}, **kwargs)

    def __getitem__(self, key):
        return self._items[to_lowercase(key)][1]

    def __setitem__(self, key, value):
        self._items[to_lowercase(key)] = (key, value)

    def __delitem__(self, key):
        del self._items[to_lowercase(key)]

    def __iter__(self):
        return iter([key for key, _ in self._items.values()])

    def __len__(self):
        return len(self._items)

    def __eq__(self, other):
        return isinstance(other, _Mapping) and dict(self.items_lower()) == dict(CaseInsensitiveDict(other).items_lower())

    def __repr__(self):
        return repr(dict(self))

    def items_lower(self):
        return ((key, item[1]) for key, item in self._items.items())


def _cased(data, method, keep):
    if hasattr(data, method):
        return getattr(data, method)()
    if isinstance(data, _Mapping):
        changed = [(_cased(key, method, keep), _cased(value, method, keep)) for key, value in data.items()]
        return (type(data) if keep else dict)(changed)
    if isinstance(data, (list, tuple)):
        return type(data)([_cased(one, method, keep) for one in data])
    return data


def to_lowercase(data, preserve_dict_class=False):
    """Text in lower case, at any depth."""
    return _cased(data, "lower", preserve_dict_class)


def to_uppercase(data, preserve_dict_class=False):
    """Text in upper case, at any depth."""
    return _cased(data, "upper", preserve_dict_class)


def compare_dicts(old=None, new=None):
    """What differs: key to `old` and `new`, an empty text where there is none."""
    old, new = old or {}, new or {}
    return {
        key: {"old": old.get(key, ""), "new": new.get(key, "")}
        for key in {**old, **new}
        if key not in old or key not in new or old[key] != new[key]
    }


def compare_lists(old=None, new=None):
    """What is in only one of two lists."""
    found = {"new": [one for one in new if one not in old], "old": [one for one in old if one not in new]}
    return {side: ones for side, ones in found.items() if ones}


def _convert(data, change, keep_class, keep_tuples, above=()):
    """Applies a function at any depth; a container inside itself becomes None."""
    if not isinstance(data, (_Mapping, list, tuple)):
        return change(data)
    if id(data) in above:
        return None
    above += (id(data),)
    if isinstance(data, _Mapping):
        made = type(data)() if keep_class and not isinstance(data, dict) else {}
        for key, value in data.items():
            made[_convert(key, change, keep_class, keep_tuples, above)] = _convert(value, change, keep_class, keep_tuples, above)
        return made
    found = [_convert(one, change, keep_class, keep_tuples, above) for one in data]
    return tuple(found) if keep_tuples and isinstance(data, tuple) else found


def decode(data, encoding=None, errors="strict", keep=False, normalize=False, preserve_dict_class=False, preserve_tuples=False, to_str=False):
    """Bytes become text, at any depth; with `keep`, those that are none stay."""
    import datetime

    from salt.utils import stringutils

    def change(one):
        if isinstance(one, datetime.datetime):
            return one.isoformat()
        try:
            return stringutils.to_str(one, encoding, errors, normalize)
        except TypeError:
            return one
        except UnicodeDecodeError:
            if keep:
                return one
            raise

    return _convert(data, change, preserve_dict_class, preserve_tuples)


def encode(data, encoding=None, errors="strict", keep=False, preserve_dict_class=False, preserve_tuples=False):
    """Text becomes bytes, at any depth."""
    from salt.utils import stringutils

    def change(one):
        try:
            return stringutils.to_bytes(one, encoding, errors)
        except TypeError:
            return one
        except UnicodeEncodeError:
            if keep:
                return one
            raise

    return _convert(data, change, preserve_dict_class, preserve_tuples)


decode_dict = decode_list = decode
encode_dict = encode_list = encode


def decode_tuple(data, *args, **kwargs):
    return tuple(decode(list(data), *args, **{**kwargs, "preserve_tuples": True}))


def encode_tuple(data, *args, **kwargs):
    return tuple(encode(list(data), *args, **{**kwargs, "preserve_tuples": True}))


def exactly_n(iterable, amount=1):
    """Whether as many values are true."""
    return sum(map(bool, iterable)) == amount


def exactly_one(iterable):
    return exactly_n(iterable)


def traverse_dict(data, key, default=None, delimiter=DEFAULT_TARGET_DELIM):
    """`a:b` in nested maps."""
    import functools
    import operator

    try:
        return functools.reduce(operator.getitem, key.split(delimiter), data)
    except (LookupError, TypeError):
        return default


_NOTHING = object()


def traverse_dict_and_list(data, key, default=None, delimiter=DEFAULT_TARGET_DELIM):
    """`a:b:0` in nested maps and lists; a key of a list of maps is that of the first map that has it."""
    for part in key.split(delimiter) if isinstance(key, str) else [key] if isinstance(key, int) else key:
        data = _below_list(data, part) if isinstance(data, list) else _below(data, part)
        if data is _NOTHING:
            return default
    return data


def _below_list(data, key):
    try:
        number = int(key)
    except ValueError:
        number = None
    wanted = key if number is None else number
    for one in data:
        if isinstance(one, dict) and wanted in one:
            return one[wanted]
    try:
        return _NOTHING if number is None else data[number]
    except IndexError:
        return _NOTHING


def _below(data, key):
    try:
        return data[key]
    except TypeError:
        return _NOTHING
    except KeyError:
        pass
    # The key may be a number, or another thing that YAML knows.
    from salt.utils.args import yamlify_arg

    loaded = yamlify_arg(key)
    try:
        return _NOTHING if loaded == key else data[loaded]
    except (KeyError, TypeError):
        return _NOTHING


def subdict_match(data, expr, delimiter=DEFAULT_TARGET_DELIM, regex_match=False, exact_match=False):
    """Whether `a:b:glob` matches something in nested data."""
    how = {"regex_match": regex_match, "exact_match": exact_match}

    def same(value, pattern):
        value, pattern = str(value).lower(), str(pattern).lower()
        if not regex_match:
            return value == pattern if exact_match else _fnmatch.fnmatch(value, pattern)
        import re

        try:
            return bool(re.match(pattern, value))
        except re.error:
            return False

    def in_map(table, pattern):
        anywhere = pattern.startswith("*:")
        pattern = pattern[2:] if anywhere else pattern
        if pattern == "*" or pattern in table or any(same(key, pattern) for key in table) or subdict_match(table, pattern, **how):
            return True
        return anywhere and any(in_value(value, pattern) for value in table.values())

    def in_value(value, pattern):
        if isinstance(value, dict):
            return in_map(value, pattern)
        return any(same(one, pattern) for one in (value if isinstance(value, list) else [value]))

    parts = expr.split(delimiter)
    for cut in reversed(range(1, len(parts))):
        path, pattern = delimiter.join(parts[:cut]), delimiter.join(parts[cut:])
        if path == "*":
            found, pattern = data, expr
        else:
            found = traverse_dict_and_list(data, path, {}, delimiter)
        if isinstance(found, dict):
            if found and in_map(found, pattern):
                return True
            continue
        for one in found if isinstance(found, (list, tuple)) else [found]:
            if isinstance(one, dict) and in_map(one, pattern) or same(one, pattern):
                return True
    return False


def filter_by(lookup_dict, lookup, traverse, merge=None, default="default", base=None):
    """The entry of a table that a value of nested data chooses, on top of another entry and below a map."""
    import copy

    from salt.exceptions import SaltException
    from salt.utils.dictupdate import update

    value = traverse_dict_and_list(traverse, lookup, [])
    named = [str(one) for one in (value if isinstance(value, list) else [value])]
    matches = (lookup_dict[key] for one in named for key in lookup_dict if _fnmatch.fnmatchcase(one, str(key)))
    chosen = next((one for one in matches if one is not None), None)
    if chosen is None:
        chosen = lookup_dict.get(default)
    if base and base in lookup_dict:
        below = lookup_dict[base]
        if chosen is None:
            chosen = below
        elif isinstance(below, _Mapping):
            if not isinstance(chosen, _Mapping):
                raise SaltException("filter_by default and look-up values must both be dictionaries.")
            chosen = update(copy.deepcopy(below), chosen)
    if merge:
        if not isinstance(merge, _Mapping):
            raise SaltException("filter_by merge argument must be a dictionary.")
        chosen = merge if chosen is None else update(chosen, copy.deepcopy(merge))
    return chosen


def substr_in_list(string_to_search_for, list_to_search):
    """Whether a text is part of one of a list."""
    return any(string_to_search_for in one for one in list_to_search)


def is_dictlist(data):
    """Whether it is a list of maps of one key each."""
    return isinstance(data, list) and all(isinstance(one, dict) and len(one) == 1 for one in data)


def repack_dictlist(data, strict=False, recurse=False, key_cb=None, val_cb=None):
    """One map of a list of keys and maps of one key; an empty one if it is no such list."""
    if isinstance(data, str):
        from salt.utils import yaml

        try:
            data = yaml.safe_load(data)
        except yaml.parser.ParserError:
            return {}
    scalars = (str, int, float)
    if not isinstance(data, list) or not all(isinstance(one, scalars) or isinstance(one, dict) and len(one) == 1 for one in data):
        return {}
    found = {}
    for one in data:
        if isinstance(one, scalars):
            found[key_cb(one) if key_cb else one] = None
            continue
        ((key, value),) = one.items()
        if recurse and is_dictlist(value):
            value = repack_dictlist(value, recurse=True)
        elif strict and is_dictlist(value):
            return {}
        elif val_cb:
            value = val_cb(key, value)
        found[key_cb(key) if key_cb else key] = value
    return found


def is_list(value):
    return isinstance(value, list)


def is_iter(thing, ignore=(str,)):
    """Whether it can be gone through, and is no text."""
    skipped = ignore and isinstance(thing, ignore)
    return not skipped and (isinstance(thing, _Iterable) or hasattr(type(thing), "__getitem__"))


def sorted_ignorecase(to_sort):
    return sorted(to_sort, key=str.lower)


def is_true(value=None):
    """Whether a word or number means yes."""
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return value.lower() == "true" if isinstance(value, str) else bool(value)


def mysql_to_dict(data, key):
    """Rows of a table that `mysql` draws, by one column."""
    from salt.utils.stringutils import to_num

    found, columns = {}, []
    for line in data:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells or line.startswith("+"):
            continue
        if columns:
            row = dict(zip(columns, map(to_num, cells)))
            found[row[key]] = row
        else:
            columns = cells
    return found


def simple_types_filter(data):
    """Anything but maps, lists, text and numbers becomes its representation."""
    plain = (str, int, float, type(None))
    if isinstance(data, dict):
        made = {}
        for key, value in data.items():
            inner = isinstance(value, (dict, list, tuple))
            made[key if isinstance(key, plain) else repr(key)] = simple_types_filter(value) if inner or isinstance(value, plain) else repr(value)
        return made
    if isinstance(data, (list, tuple)):
        # A tuple in a list stays as it is.
        return [
            simple_types_filter(one) if isinstance(one, (dict, list)) else one if isinstance(one, plain + (tuple,)) else repr(one)
            for one in data
        ]
    return data


def stringify(data):
    return [one if isinstance(one, str) else str(one) for one in data]


def json_query(data, expr):
    """What a JMESPath expression finds."""
    try:
        import jmespath
    except ImportError:
        raise RuntimeError("json_query requires jmespath module installed") from None
    return jmespath.search(expr, data)


def filter_falsey(data, recurse_depth=None, ignore_types=()):
    """Without values that count as false, but False itself, in so many levels below this one."""

    def inner(value):
        return filter_falsey(value, recurse_depth - 1, ignore_types) if recurse_depth else value

    def wanted(value):
        return value or isinstance(value, bool) or type(value) in ignore_types

    if isinstance(data, dict):
        items = [(key, inner(value)) for key, value in data.items()]
        return type(data)([item for item in items if wanted(item[1])])
    if is_iter(data):
        return type(data)([value for value in map(inner, data) if wanted(value)])
    return data


def recursive_diff(old, new, ignore_keys=None, ignore_order=False, ignore_missing_keys=False):
    """What differs in nested data, as `old` and `new`; nothing if nothing does."""
    skipped = ignore_keys or ()

    def diff(a, b):
        return recursive_diff(a, b, skipped, ignore_order, ignore_missing_keys)

    if isinstance(old, _OrderedDict) and isinstance(new, _OrderedDict) and not ignore_order:
        left, right = _ordered_diff(old, new, skipped, diff)
    elif isinstance(old, _Mapping) and isinstance(new, _Mapping):
        left = {key: value for key, value in old.items() if key not in skipped and (key in new or not ignore_missing_keys)}
        right = {key: value for key, value in new.items() if key not in skipped}
        for key in [key for key in left if key in right]:
            _note(left, right, key, key, diff(old[key], new[key]))
    elif isinstance(old, set) and isinstance(new, set):
        left, right = old - new, new - old
    elif is_iter(old) and is_iter(new):
        left, right = _list_diff(old, new, ignore_order, diff)
        left, right = type(old)(left), type(new)(right)
    else:
        return {} if old == new else {"old": old, "new": new}
    return {"old": left, "new": right} if left or right else {}


def _note(left, right, mine, theirs, found):
    """Keeps what differs of a pair, or takes it out."""
    if found:
        left[mine], right[theirs] = found["old"], found["new"]
    else:
        del left[mine], right[theirs]


def _ordered_diff(old, new, skipped, diff):
    left, right = _OrderedDict(old), _OrderedDict(new)
    for mine, theirs in zip(old, new):
        if mine == theirs:
            _note(left, right, mine, theirs, {} if mine in skipped else diff(old[mine], new[theirs]))
        else:
            for side, key in ((left, mine), (right, theirs)):
                if key in skipped:
                    side.pop(key, None)
    return left, right


def _list_diff(old, new, ignore_order, diff):
    if not ignore_order:
        both = min(len(old), len(new))
        pairs = [one for one in map(diff, old, new) if one]
        rest = list(old)[both:], list(new)[both:]
        return [one["old"] for one in pairs] + rest[0], [one["new"] for one in pairs] + rest[1]
    left, right = list(old), list(new)
    for mine in old:
        for theirs in new:
            if mine in left and theirs in right and not diff(mine, theirs):
                left.remove(mine)
                right.remove(theirs)
    return left, right


def flatten(data, levels=None, preserve_nulls=False, _ids=None):
    """One list of nested ones, down to a level."""
    seen = set() if _ids is None else _ids
    if id(data) in seen:
        raise RecursionError("Reference cycle detected. Check input list.")
    seen.add(id(data))
    found = []
    for one in data:
        if one in (None, "None", "null") and not preserve_nulls:
            continue
        if is_iter(one) and (levels is None or levels >= 1):
            found += flatten(one, None if levels is None else int(levels) - 1, preserve_nulls, seen)
        else:
            found.append(one)
    return found


def hash(value, algorithm="sha512"):
    """The digest of text or bytes."""
    import hashlib

    from salt.exceptions import SaltException

    try:
        made = hashlib.new(algorithm)
    except ValueError:
        raise SaltException("You must specify a valid algorithm.") from None
    made.update(value.encode("utf-8") if isinstance(value, str) else value)
    return made.hexdigest()
