"""Returns a list."""


def render(data, saltenv="base", sls="", **kwargs):
    return ["not", "a", "dict"]
