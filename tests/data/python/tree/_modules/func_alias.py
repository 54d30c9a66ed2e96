"""Names that would hide builtins."""

__func_alias__ = {"list_": "list", "set_": "set", "absent_": "absent"}


def list_():
    """Lists."""
    return ["list"]


def set_(key, value=None):
    return {key: value}


def type_():
    return "kept underscore"


def list_twice():
    return list_() + __salt__["func_alias.list"]()
