"""Dunders in grains."""


def run():
    return {
        "corpus_dunder_names": [one for one in ("__opts__", "__salt__", "__grains__", "__pillar__", "__utils__", "__context__", "__proxy__") if one in globals()],
        "corpus_opts_id": __opts__["id"],
    }


def kernel():
    try:
        return {"corpus_dunder_kernel": __grains__.get("kernel", "none")}
    except Exception as error:
        return {"corpus_dunder_kernel": type(error).__name__}
