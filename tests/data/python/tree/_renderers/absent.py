"""Not here."""


def __virtual__():
    return False, "no such format"


def render(data, saltenv="base", sls="", **kwargs):
    return {}
