"""What differs between maps."""
from collections.abc import Mapping


def diff(current_dict, past_dict):
    return DictDiffer(current_dict, past_dict)


class DictDiffer:
    """Keys that were added, removed, changed, or not."""

    def __init__(self, current_dict, past_dict):
        self.current_dict, self.set_current = current_dict, set(current_dict)
        self.past_dict, self.set_past = past_dict, set(past_dict)
        self.intersect = {key for key in current_dict if key in past_dict}

    def added(self):
        return self.set_current - self.set_past

    def removed(self):
        return self.set_past - self.set_current

    def changed(self):
        return self.intersect - self.unchanged()

    def unchanged(self):
        return {key for key in self.intersect if self.current_dict[key] == self.past_dict[key]}


def deep_diff(old, new, ignore=None):
    """`old` and `new` without what is the same in both, at any depth."""
    import copy

    def rest(one, other):
        left, right = dict(one), dict(other)
        for key in {**one, **other}:
            if key in one and key in other and one[key] == other[key]:
                del left[key], right[key]
                continue
            if key in (ignore or ()):
                left.pop(key, None)
                right.pop(key, None)
            if isinstance(left.get(key), Mapping) and isinstance(right.get(key), Mapping):
                left[key], right[key] = rest(left[key], right[key])
                if left[key] == right[key]:
                    # Nothing but keys to ignore differed.
                    del left[key], right[key]
        return left, right

    sides = zip(("old", "new"), rest(old, new))
    return {name: copy.deepcopy(side) for name, side in sides if side}


def recursive_diff(past_dict, current_dict, ignore_missing_keys=True, list_dict_matchers=None):
    return RecursiveDictDiffer(past_dict, current_dict, ignore_missing_keys, list_dict_matchers or [])


class RecursiveDictDiffer(DictDiffer):
    """The same for nested maps; keys of inner ones are joined with dots."""

    NONE_VALUE = "<_null_>"

    def __init__(self, past_dict, current_dict, ignore_missing_keys, list_dict_matchers):
        super().__init__(current_dict, past_dict)
        self._diffs = self._compare(current_dict, past_dict, not ignore_missing_keys, list_dict_matchers)
        self.ignore_unset_values = True

    @property
    def diffs(self):
        """Nested; each leaf has `old` and `new`."""
        return self._diffs

    @classmethod
    def _compare(cls, new, old, missing, matchers):
        found = {}
        for key, value in new.items():
            if key not in old:
                found[key] = {"new": value, "old": cls.NONE_VALUE}
            elif value != old[key]:
                inner = None
                if isinstance(value, dict) and isinstance(old[key], dict):
                    inner = cls._compare(value, old[key], missing, matchers)
                elif matchers and isinstance(value, list) and isinstance(old[key], list):
                    inner = cls._compare_lists(value, old[key], missing, matchers)
                if inner is None:
                    found[key] = {"new": value, "old": old[key]}
                elif inner:
                    found[key] = inner
        if missing:
            found.update({key: {"new": cls.NONE_VALUE, "old": value} for key, value in old.items() if key not in new})
        return found

    @classmethod
    def _compare_lists(cls, new, old, missing, matchers):
        """Maps in lists are pairs if a key of theirs is the same; None if there is no such key."""
        if not (isinstance(new[0], dict) and isinstance(old[0], dict)):
            return None
        name = next((one for one in reversed(matchers) if all(one in item for item in new + old)), None)
        if name is None:
            return None
        found, before = {}, {item[name]: item for item in reversed(old)}
        for item in new:
            inner = cls._compare(item, before[item[name]], missing, matchers) if item[name] in before else None
            if inner:
                found = {item[name]: inner}
        return found

    def _leaf(self, node):
        return isinstance(node, dict) and "old" in node

    def _values(self, node, side):
        return {key: one[side] if side in one else self._values(one, side) for key, one in node.items()}

    @property
    def new_values(self):
        return self._values(self._diffs, "new")

    @property
    def old_values(self):
        return self._values(self._diffs, "old")

    def _words(self, value):
        if value == self.NONE_VALUE:
            return "nothing"
        if isinstance(value, (str, list)):
            return "'%s'" % (value if isinstance(value, str) else ", ".join(value))
        return str(value)

    def _lines(self, node):
        for key in sorted(node):
            one = node[key]
            if set(one) == {"new", "old"}:
                yield "%s from %s to %s" % (key, self._words(one["old"]), self._words(one["new"]))
            else:
                inner = ["  " + line for line in self._lines(one)]
                yield from ["%s:" % key] + inner if inner else []

    @property
    def changes_str(self):
        """For people: a line for each change."""
        return "\n".join(self._lines(self._diffs))

    def _keys(self, table, start, dot):
        """All keys of a map and the maps in it."""
        for key, value in table.items():
            yield start + str(key)
            if isinstance(value, dict):
                yield from self._keys(value, "%s%s%s" % (start, key, dot), dot)

    def _only(self, side, other, nested, dot, node, start=""):
        """Keys that only one side has."""
        for key, one in node.items():
            path = start + str(key)
            if not isinstance(one, dict):
                continue
            if not self._leaf(one):
                yield from self._only(side, other, nested, dot, one, path + dot)
            elif one[other] == self.NONE_VALUE:
                yield path
                if nested and isinstance(one[side], dict):
                    yield from self._keys(one[side], path + dot, dot)
            elif isinstance(one[side], dict) and not isinstance(one[other], dict):
                yield from self._keys(one[side], path + dot, dot)

    def added(self, include_nested=False, separator="."):
        return sorted(self._only("new", "old", include_nested, separator, self._diffs))

    def removed(self, include_nested=False, separator="."):
        return sorted(self._only("old", "new", include_nested, separator, self._diffs))

    def changed(self, separator="."):
        return sorted(self._changed(self._diffs, "", separator))

    def _changed(self, node, start, dot):
        for key, one in node.items():
            path = start + str(key)
            if not isinstance(one, dict):
                continue
            if not self._leaf(one):
                yield from self._changed(one, path + dot, dot)
            elif self.ignore_unset_values and self.NONE_VALUE in (one["old"], one.get("new")):
                yield from self._changed(one, path + dot, dot)
            elif isinstance(one["new"], dict):
                yield from self._changed(one["new"], path + dot, dot)
            else:
                yield path

    def unchanged(self, separator="."):
        return sorted(self._unchanged(self.current_dict, self._diffs, "", separator))

    def _unchanged(self, table, node, start, dot):
        for key, value in table.items():
            path = start + str(key)
            if key not in node:
                yield path
            elif isinstance(value, dict) and "new" not in node[key]:
                yield from self._unchanged(value, node[key], path + dot, dot)
