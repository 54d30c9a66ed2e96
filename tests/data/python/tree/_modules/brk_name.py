"""Uses a dunder at the top, which works, and a name that is not there."""
WHO = __opts__["id"]
WRONG = undefined_at_the_top


def run():
    return WHO
