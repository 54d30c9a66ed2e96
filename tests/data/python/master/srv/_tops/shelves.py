"""States of a minion by its id."""


def top(**kwargs):
    wanted = __opts__["master_tops"]["shelves"]
    if kwargs["opts"]["id"].startswith(wanted["prefix"]):
        return {"base": ["shelf", "labels"]}
    return {}
