"""An external pillar with arguments of all kinds."""


def ext_pillar(minion_id, pillar, *args, **kwargs):
    return {
        "store": {
            "id": minion_id,
            "args": list(args),
            "kwargs": {key: kwargs[key] for key in sorted(kwargs)},
            "seen": pillar.get("plain"),
            "grain": __grains__["id"],
            "opts": __opts__["__role"],
        }
    }
