"""Grains under another name, called in another order."""

__virtualname__ = "zz_corpus"


def __virtual__():
    return __virtualname__


def run(grains):
    return {"corpus_virtual_named": True, "corpus_saw_second": grains.get("corpus_second")}
