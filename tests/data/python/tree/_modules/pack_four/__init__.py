"""A package of one file."""


def run():
    return "pack_four"


def dunders():
    return __salt__["test.echo"](__opts__["id"])
