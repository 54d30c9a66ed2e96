"""Requests, made by halite's own `http.query`."""


def query(url, method="GET", params=None, data=None, **kwargs):
    """What came back, by the keywords of `http.query`."""
    from halite.main import salt

    # Only Salt's own implementation knows these.
    for name in ("opts", "node", "backend", "requests_lib", "hide_fields", "raise_error"):
        kwargs.pop(name, None)
    given = {"method": method, "params": params, "data": data, **kwargs}
    return salt()["http.query"](url, **{name: value for name, value in given.items() if value is not None})
