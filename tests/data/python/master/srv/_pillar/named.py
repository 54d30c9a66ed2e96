__virtualname__ = "labelled"


def __virtual__():
    return __virtualname__


def ext_pillar(minion_id, pillar, prefix):
    return {"labelled": prefix + minion_id, "deep": {"b": 2}}
