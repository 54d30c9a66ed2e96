"""Only some functions are public."""

__load__ = ["shown"]


def shown():
    return hidden()


def hidden():
    return "hidden but callable inside"
