"""Events: fired through halite's minion, never received here."""

SALT, TAGPARTER = "salt", "/"
TAGS = {name: name for name in "auth job key minion syndic presence run wheel cloud fileserver queue".split()}


def tagify(suffix="", prefix="", base=SALT):
    """Parts of a tag, joined; empty ones are left out."""
    from salt.utils.stringutils import to_str

    parts = [base, prefix] + ([suffix] if isinstance(suffix, str) or not hasattr(suffix, "__iter__") else list(suffix))
    texts = [to_str(part) if isinstance(part, (str, bytes)) else str(part) for part in parts]
    return TAGPARTER.join(filter(None, texts))


class SaltEvent:
    """Fires events on this minion's bus, or with `fire_master` on the master's."""

    def __init__(self, *args, **kwargs):
        pass

    def fire_event(self, data, tag, timeout=1000):
        return _salt("event.fire", data, tag)

    def fire_master(self, data, tag, timeout=1000):
        return _salt("event.fire_master", data, tag)

    def destroy(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


MinionEvent = SaltEvent


def get_event(node, *args, **kwargs):
    """The bus of this minion."""
    if node != "minion":
        raise ValueError("halite's minion has no event bus of a %s here" % node)
    return SaltEvent()


def _salt(name, *args):
    from halite.main import salt

    return salt()[name](*args)
