"""A wheel module."""


def press(colour):
    return {"colour": colour, "role": __opts__["__role"]}
