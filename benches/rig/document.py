"""Writes tables between markers in documents."""
from .masters import Failed


def markers(name):
    """The marker lines before and after a table."""
    return f"<!-- {name}: written by benches/compare --docs -->\n", f"<!-- end of {name} -->\n"


def put(text, name, body):
    """`text` with `body` between the markers of that name. Raises Failed if it has no such markers."""
    first, last = markers(name)
    begin, end = text.find(first), text.find(last)
    if begin < 0 or end < begin:
        raise Failed(f"no markers of {name}")
    return f"{text[:begin + len(first)]}\n{body.strip()}\n\n{text[end:]}"


def write(path, bodies):
    """Writes several bodies, by name of their markers, into a file. Raises Failed like `put`."""
    with open(path) as f:
        text = f.read()
    for name, body in bodies.items():
        try:
            text = put(text, name, body)
        except Failed as e:
            raise Failed(f"{path}: {e}") from None
    with open(path, "w") as f:
        f.write(text)
