"""Secrets by name."""


def get(key, profile=None):
    return "%s of %s" % (key, (profile or {}).get("driver"))
