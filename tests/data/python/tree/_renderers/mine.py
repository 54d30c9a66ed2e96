"""Lines `key = value`, or data of a renderer before it."""


def render(data, saltenv="base", sls="", argline="", **kwargs):
    if isinstance(data, dict):
        data["through_mine"] = {"test.nop": [{"name": "added by mine"}]}
        return data
    text = data if isinstance(data, str) else data.read()
    found = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key.strip()] = {"test.succeed_with_changes": [{"name": value.strip()}]}
    return found
