"""`__proxy__` on a minion that is none."""


def present():
    return "__proxy__" in globals()


def value():
    try:
        return [bool(__proxy__), "x.y" in __proxy__]
    except Exception as error:
        return type(error).__name__
