"""Passwords are names backwards."""


def auth(username, password, **kwargs):
    if username == "broken":
        raise RuntimeError("the cellar is flooded, %s" % password)
    return password == username[::-1]


def groups(username, **kwargs):
    return ["keepers"] if username == "kim" else []
