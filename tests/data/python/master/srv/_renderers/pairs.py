"""Lines of `key: value`, in capitals."""


def render(data, saltenv="base", sls="", argline="", **kwargs):
    text = data if isinstance(data, str) else data.read()
    found = {}
    for line in text.splitlines():
        if ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            found[key.strip()] = value.strip().upper()
    return found
