def ext_pillar(minion_id, pillar, conf):
    if __opts__.get("pillarenv") == "broken":
        raise ValueError("the store is closed")
    return {}
