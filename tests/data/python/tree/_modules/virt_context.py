"""`__virtual__` decides by options, grains, pillar and other modules."""


def __virtual__():
    if not __opts__.get("id"):
        return False, "no id"
    if __grains__.get("kernel") != "Linux":
        return False, "not Linux"
    if "test.ping" not in __salt__:
        return False, "no test.ping"
    if __pillar__.get("corpus", {}).get("name") != "halite":
        return False, "no pillar"
    return "virt_by_context"


def run():
    return sorted(name for name in ("id",) if name in __opts__)
