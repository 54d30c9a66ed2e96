#!py


def run():
    return {"code": {"id": __grains__["id"], "minion": __opts__["minion_id"], "sum": sum(range(5)), "sls": __sls__}}
