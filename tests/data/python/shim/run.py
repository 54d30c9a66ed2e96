"""Runs cases.py with halite's part of Salt's package instead of Salt, in any Python from 3.8 on; says what sources.rs lacks."""
import os
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = os.path.join(HERE, "../../../../src/python/host")


def sources():
    """Our modules by name, as src/python/sources.rs sends them."""
    found = {}
    for root, _, files in os.walk(HOST):
        for file in files:
            path = os.path.relpath(os.path.join(root, file), HOST)
            name = path[: -len(".py")].replace(os.sep, ".")
            if file.endswith(".py") and name != "bootstrap":
                with open(os.path.join(HOST, path), encoding="utf-8") as text:
                    found[re.sub(r"\.__init__$", "", name)] = text.read()
    with open(os.path.join(HOST, "../sources.rs"), encoding="utf-8") as text:
        sent = set(re.findall(r'"([\w.]+)" => "', text.read()))
    for name in sorted(set(found) ^ sent):
        sys.stderr.write("sources.rs and the files differ: %s\n" % name)
    return found


def yaml_load(text):
    """Only scalars, and what is JSON as well; halite's own parser has its own tests."""
    import json

    word = text.strip()
    if word in ("", "~", "null", "true", "false", "yes", "no"):
        return {"true": True, "false": False, "yes": True, "no": False}.get(word)
    try:
        return json.loads(word)
    except ValueError:
        if re.match(r"[A-Za-z][\w .-]*$", word):
            return word
        raise ValueError("the stub does not know this YAML: %r" % text) from None


class Wire:
    """In the place of halite."""

    def ask(self, what, *args):
        if what == "yaml_load":
            return yaml_load(*args)
        raise RuntimeError("the stub has no answer to %s" % what)


def main():
    ours = sources()
    space = {}
    exec(compile(ours["halite.finder"], "<halite.finder>", "exec"), space)
    sys.meta_path.insert(0, space["Finder"](ours))
    from halite import main

    main.HERE.update(wire=Wire(), loader=types.SimpleNamespace(opts={"id": "here"}, grains={}, salt={}))
    sys.argv = [os.path.join(HERE, "cases.py"), "--stub"]
    with open(sys.argv[0], encoding="utf-8") as file:
        exec(compile(file.read(), sys.argv[0], "exec"), {"__name__": "__main__", "__file__": sys.argv[0]})


if __name__ == "__main__":
    main()
