"""Raises; the rest goes on."""


def fails():
    raise RuntimeError("no grains here")


def works():
    return {"corpus_after_failure": "there"}


def exits():
    import sys

    return {"corpus_exits": sys.version_info[0]}
