"""Returns of states."""


def gen_tag(low):
    """The key of a state's return."""
    return "_|-".join(str(low[key]) for key in ("state", "__id__", "name", "fun"))


def merge_subreturn(original_return, sub_return, subkey=None):
    """Adds the return of an inner state to that of an outer one; its changes are below a key."""
    if sub_return["result"] is False:
        original_return["result"] = False
    inner = sub_return["comment"]
    said = original_return.setdefault("comment", [])
    added = inner if isinstance(inner, list) else [inner]
    # Lists stay lists, text stays text.
    original_return["comment"] = said + added if isinstance(said, list) else "\n".join([said] * bool(said) + added)
    if sub_return["changes"]:
        original_return.setdefault("changes", {})[subkey or sub_return["name"]] = sub_return["changes"]
    return original_return
