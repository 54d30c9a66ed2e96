"""Events: fired through halite's minion or master, never received here."""

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


class MasterEvent(SaltEvent):
    """Fires events on the bus of the master that runs this."""

    def fire_event(self, data, tag, timeout=1000):
        from halite.main import ask

        return ask("fire", tag, data)

    fire_master = fire_event


def get_event(node, *args, **kwargs):
    """The bus of the minion or master that runs this."""
    from halite.main import HERE

    here = HERE["loader"].opts.get("__role", "minion")
    if node != here:
        raise ValueError("a %s of halite has no event bus of a %s here" % (here, node))
    return MasterEvent() if node == "master" else SaltEvent()


def get_master_event(opts=None, sock_dir=None, *args, **kwargs):
    return get_event("master")


def _salt(name, *args):
    from halite.main import salt

    return salt()[name](*args)
