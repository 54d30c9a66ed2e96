"""Grains for another system."""


def __virtual__():
    return False, "another system"


def run():
    return {"corpus_virtual": "never"}
