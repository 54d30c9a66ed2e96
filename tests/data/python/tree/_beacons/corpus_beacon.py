"""Nothing happens."""


def validate(config):
    return True, "valid"


def beacon(config):
    return [{"seen": True}]
