#!py
def run():
    """States from Python."""
    states = {}
    for name in ("a", "b"):
        states[name] = {"st_plain.present": [{"value": __salt__["shape_plain.greet"](name)}]}
    states["seen"] = {
        "test.nop": [{"name": "%s %s %s %s %s" % (__sls__, __env__, __opts__["id"], __grains__["kernel"], __pillar__["corpus"]["name"])}]
    }
    states["include"] = ["sub.inner"]
    return states
