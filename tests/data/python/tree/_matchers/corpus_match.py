"""`- match: corpus` in top.sls: ids that begin with the target."""


def match(tgt, opts=None, minion_id=None):
    opts = opts or __opts__
    return (minion_id or opts["id"]).startswith(tgt)
