"""Calls state functions as Salt's state system does."""
from halite.signature import signature

# What a state function finds as globals, from its declaration.
OF_LOW = ("__id__", "__sls__", "__env__")


def call(loader, name, low, extra, test):
    """The return of a state function; `extra` are the keywords of its declaration that are not for the engine."""
    function = loader.function("states", name)
    args, defaults, _, keywords = signature(function.code)
    given = {}
    for arg in args:
        if arg in low:
            given[arg] = low[arg]
    unknown = {key: value for key, value in extra.items() if key not in args}
    if keywords:
        given.update(unknown)
    elif unknown.keys() - {"sfun"}:
        from salt.exceptions import SaltInvocationError

        raise SaltInvocationError("%s is an invalid keyword argument for '%s'." % (", ".join(map(repr, sorted(unknown.keys() - {"sfun"}))), name))
    # Modules of an installed Salt take this option from their loader.
    opts = function.code.__globals__["__opts__"] if function.by is None else function.code.loader.opts
    before = opts.get("test")
    opts["test"] = test
    space = getattr(function.code, "__globals__", None)
    injected = inject(loader, space, low) if isinstance(space, dict) else None
    try:
        ret = function.code(**given)
    finally:
        opts["test"] = before
        if injected is not None:
            space.update(injected)
    return ret


def inject(loader, space, low):
    """Sets the globals of one call; returns those of the call around it."""
    new = {"__low__": low, "__instance_id__": str(id(loader)), "__running__": Lazy(loader, "running"), "__lowstate__": Lazy(loader, "lowstate")}
    new.update((key, low[key]) for key in OF_LOW if key in low)
    new["__reqs__"] = Lazy(loader, "reqs")
    old = {name: space.get(name) for name in new}
    space.update(new)
    return old


class Lazy:
    """What few states look at and may be large: fetched when it is."""

    def __init__(self, loader, what):
        self._loader = loader
        self._what = what
        self._value = None

    def _get(self):
        if self._value is None:
            self._value = self._loader.wire.ask("run", self._what)
        return self._value

    def __getattr__(self, name):
        return getattr(self._get(), name)

    def __getitem__(self, key):
        return self._get()[key]

    def __iter__(self):
        return iter(self._get())

    def __len__(self):
        return len(self._get())

    def __contains__(self, key):
        return key in self._get()

    def __repr__(self):
        return repr(self._get())
