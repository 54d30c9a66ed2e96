"""Takes the grains that are there."""


def with_grains(grains):
    return {"corpus_seen_kernel": grains.get("kernel"), "corpus_seen_plain": grains.get("corpus_plain", "not yet")}


def with_default(grains=None):
    return {"corpus_default_is_none": grains is None}
