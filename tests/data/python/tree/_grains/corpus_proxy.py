"""Takes `proxy`."""


def with_proxy(proxy=None):
    return {"corpus_proxy": repr(proxy)}


def with_required(proxy):
    return {"corpus_proxy_required": repr(proxy)}
