def __virtual__():
    return False, "there is no absent"


def never():
    return 1
