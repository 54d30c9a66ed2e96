"""A text filter with an argument line."""


def render(data, saltenv="base", sls="", argline="", **kwargs):
    text = data if isinstance(data, str) else data.read()
    words = argline.split()
    for old, new in zip(words[::2], words[1::2]):
        text = text.replace(old, new)
    return text
