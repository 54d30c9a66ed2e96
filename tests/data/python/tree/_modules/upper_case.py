"""Names with capitals."""


def getName():
    return "getName"


def UPPER():
    return "UPPER"
