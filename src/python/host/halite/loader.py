"""Loads users' modules with what Salt's loader promises them."""
import os
import sys
import types

from halite.beside import Beside, spec_of
from halite.functions import Functions
from halite.values import collected, plain
from halite.wire import Closed

# As in Salt's log lines and tracebacks.
PACKAGES = {
    "modules": "module",
    "states": "states",
    "grains": "grains",
    "utils": "utils",
    "renderers": "render",
    "returners": "returner",
    "beacons": "beacons",
    "matchers": "matchers",
    "executors": "executor",
    "sdb": "sdb",
    "output": "output",
    "runners": "runners",
    "wheel": "wheel",
    "pillar": "pillar",
    "tops": "top",
    "engines": "engines",
    "auth": "auth",
}


class Loader:
    """All modules of a job, and what they share."""

    def __init__(self, wire, has_salt):
        self.wire = wire
        # Whether `salt` is an installed Salt, not our part of it.
        self.has_salt = has_salt
        self.opts, self.grains, self.pillar, self.context = {}, {}, {}, {}
        self.copies = []
        self.beside = Beside()
        self.kinds = {kind: Kind(self, kind) for kind in PACKAGES}
        self.salt = Functions(self, "modules")
        self.states = Functions(self, "states")
        self.utils = Functions(self, "utils")
        self.runners = Functions(self, "runners")
        # What else the log is told by; see `logs`.
        self.logs = None
        # Its functions, once they have been asked for.
        self.installed = None

    def scene(self, changes):
        """What `changes` will replace, to be put back after a request within another one."""
        before = {name: dict(getattr(self, name)) for name in ("opts", "grains", "pillar") if name in changes}
        if before:
            before["tests"] = [(opts, opts.get("test")) for opts, _ in self.copies]
        return before

    def renew(self, changes):
        """Takes over what has changed since the last request. Maps are changed in place: modules hold them."""
        for name in ("opts", "grains", "pillar"):
            if name in changes:
                mine = getattr(self, name)
                mine.clear()
                mine.update(changes[name])
        if changes:
            self.opts["grains"], self.opts["pillar"] = self.grains, self.pillar
            for opts, own in self.copies:
                opts.clear()
                opts.update(self.opts)
                opts.update(own)
            for opts, test in changes.get("tests", ()):
                opts["test"] = test
            if self.installed is not None:
                self.installed.renew()
        if "fresh" in changes:
            self.context.clear()
            self.copies.clear()
            for kind in self.kinds.values():
                kind.forget()
        if "files" in changes:
            for kind, files in changes["files"].items():
                self.kinds[kind].renew(files)
            if self.has_salt and self.installed is None and self.opts.get("__role") == "master":
                from halite.installed import own_master

                own_master(self)
        if "files" in changes or "fresh" in changes:
            for functions in (self.salt, self.states, self.utils, self.runners):
                functions.forget()

    def function(self, kind, name):
        """A function of users' files, or of an installed Salt."""
        found = self.kinds[kind].find(name, True) or self.elsewhere(kind, name)
        if found is None:
            raise KeyError(name)
        return found

    def elsewhere(self, kind, name):
        """A function of an installed Salt."""
        code = self.salts().find(kind, name) if self.has_salt else None
        if code is None:
            return None
        module, _, short = name.partition(".")
        return Function(module, short, code, None, self.installed.BY)

    def salts(self):
        """The functions of the installed Salt."""
        if self.installed is None:
            from halite.installed import Installed

            self.installed = Installed(self)
        return self.installed

    def log(self):
        """What is logged goes to halite."""
        if self.logs is None:
            from halite import logs

            self.logs = logs.install(self.wire)

    def spread(self, opts, own):
        """Keeps a module's options up to date: no module sees what another one changes in its own."""
        opts.update(self.opts)
        opts.update(own)
        self.copies.append((opts, own))
        return opts

    # Requests of halite, by name.

    def do_idle(self, seconds):
        """How long this process lives without work."""
        self.wire.idle = seconds

    def do_find(self, kind, name, thorough):
        """What a function is, or nothing; with `thorough` all files are loaded, and an installed Salt is asked, before
        there is none."""
        found = self.kinds[kind].find(name, thorough) or (thorough and self.elsewhere(kind, name))
        return found and describe(found) or None

    def do_list(self, kind):
        """All functions of a kind, and why some modules have none."""
        functions = self.kinds[kind].all()
        return {name: describe(function) for name, function in functions.items()}

    def do_describe(self, kind, names):
        """Functions of an installed Salt."""
        found = ((name, self.elsewhere(kind, name)) for name in names)
        return {name: describe(function) for name, function in found if function}

    def do_reason(self, kind, module):
        """Why a module has no functions, if it is there."""
        return self.kinds[kind].reasons.get(module)

    def do_check(self):
        """What is wrong with the files; none of them runs."""
        from halite import check

        return check.without_salt(self.has_salt) + check.broken(self.kinds)

    def do_call(self, name, args, kwargs, kind="modules", run=None):
        """An execution function or one of a runner or wheel: its value and the return code that it has set."""
        function = self.function(kind, name)
        if run:
            # As Salt tells a runner which run it is.
            names = {"__%s__" % key: value for key, value in run.items()}
            getattr(function.code, "__globals__", {}).update(names, __jid_event__=RunEvents(self.wire))
        return self.with_retcode(lambda: function.code(*args, **kwargs))

    def with_retcode(self, run):
        """A value, and the return code that was set for it."""
        before = self.context.pop("retcode", 0)
        try:
            return [whole(run()), self.context.get("retcode", 0)]
        finally:
            self.context["retcode"] = before or self.context.get("retcode", 0)

    def do_execute(self, name, data, fun, args, kwargs):
        """An executor, around an execution function: its value, nothing if the next one is to run it, and the return code."""
        function = self.function("executors", name + ".execute")
        return self.with_retcode(lambda: function.code(self.opts, data, self.salt[fun], args, kwargs))

    def do_engine(self, name, settings):
        """An engine, until it ends."""
        result = self.function("engines", name).code(**settings)
        if isinstance(result, types.GeneratorType):
            raise TypeError("%s is a generator function: it runs nothing" % name)

    def do_state(self, name, low, extra, test):
        """A state function, with the arguments of its declaration."""
        from halite import states

        return states.call(self, name, low, extra, test)

    def do_names(self, kind):
        """The names of all functions of an installed Salt."""
        return sorted(self.salts().of(kind)) if self.has_salt else []

    def do_plain(self, name, *args):
        """A function of a state module for its engine (`mod_init`, `mod_aggregate`)."""
        return plain(self.function("states", name).code(*args))

    def do_render(self, *args):
        """A renderer's result."""
        from halite import renderers

        return renderers.render(self, *args)

    def do_template(self, *args):
        """The text of a template."""
        from halite import renderers

        return renderers.template(self, *args)

    def do_use(self, kind, name, args, kwargs, optional):
        """A function that is a part of halite's own work, with those keywords of `optional` that it names."""
        from halite.signature import signature

        function = self.function(kind, name)
        known = signature(function.code)[0]
        kwargs.update((key, value) for key, value in optional.items() if key in known)
        if kind == "matchers" and "opts" in known:
            kwargs["opts"] = self.opts
        return plain(whole(function.code(*args, **kwargs)))

    def do_grain_names(self, stem):
        """The functions of a file of grains."""
        from halite import grains

        return grains.names(self, stem)

    def do_grains(self, stem, name):
        """The grains of one function."""
        from halite import grains

        return grains.call(self, stem, name)


def whole(value):
    """What a generator function returns, collected."""
    return collected(value) if isinstance(value, types.GeneratorType) else value


class RunEvents:
    """`__jid_event__`: events of the run."""

    def __init__(self, wire):
        self.wire = wire

    def fire_event(self, data, suffix):
        return self.wire.ask("progress", suffix, data)


class Function:
    """A public function of a module."""

    __slots__ = ("module", "name", "code", "path", "by", "stem")

    def __init__(self, module, name, code, path, by=None, stem=None):
        self.module, self.name, self.code, self.path, self.by, self.stem = module, name, code, path, by, stem


class Kind:
    """The modules of one kind."""

    def __init__(self, loader, kind):
        self.loader = loader
        self.kind = kind
        self.files = {}
        self.texts = {}
        self.forget()

    def forget(self):
        self.loaded = set()
        # Those whose `__virtual__` is running.
        self.asked = set()
        self.functions = {}
        self.reasons = {}

    def renew(self, files):
        """`files`: name to path and a stamp. Modules are loaded anew if anything has changed."""
        if files != self.files:
            self.files = files
            self.texts = {}
            self.forget()
            # A module may import another one beside it.
            for path, _ in files.values():
                beside = os.path.dirname(path)
                if os.path.basename(path) == "__init__.py":
                    beside = os.path.dirname(beside)
                self.loader.beside.add(beside)

    def find(self, name, thorough=False):
        function = self.functions.get(name)
        if function is not None or not self.files:
            return function
        module = name.partition(".")[0]
        for stem in self.candidates(module):
            self.load(stem)
        if thorough and name not in self.functions:
            self.all()
        return self.functions.get(name)

    def own(self, name):
        """A function of the file of that very name."""
        module = name.partition(".")[0]
        if module not in self.files:
            return None
        self.load(module)
        function = self.functions.get(name)
        return function if function is not None and function.stem == module else None

    def candidates(self, module):
        """Files that may be a module of that name: called so, or able to rename themselves."""
        if module in self.files and module not in self.loaded:
            yield module
        for stem in self.files:
            if stem != module and stem not in self.loaded:
                text = self.text(stem)
                if "__virtual" in text and ("'%s'" % module in text or '"%s"' % module in text):
                    yield stem

    def text(self, stem):
        if stem not in self.texts:
            try:
                with open(self.files[stem][0], encoding="utf-8", errors="replace") as file:
                    self.texts[stem] = file.read()
            except OSError:
                self.texts[stem] = ""
        return self.texts[stem]

    def all(self):
        for stem in self.files:
            self.load(stem)
        return self.functions

    def load(self, stem):
        """Loads a file once. One that cannot be loaded has no functions; the log says why."""
        if stem in self.loaded:
            return
        self.loaded.add(stem)
        path = self.files[stem][0]
        try:
            module = self.run(stem, path)
            name = self.virtual(stem, module) if self.init(stem, module) else None
            if name is None:
                return
        except Closed:
            raise
        except BaseException as error:
            # SystemExit as well: other modules do not end with this one.
            from halite import errors

            self.reasons.setdefault(stem, self.why(error, stem))
            level = "debug" if isinstance(error, ImportError) else "error"
            self.loader.wire.tell(
                "log", level, "halite", "%s cannot be loaded: %s: %s\n%s" % (path, type(error).__name__, errors.text_of(error), errors.trace(error))
            )
            return
        for public, code in exported(module):
            self.functions.setdefault("%s.%s" % (name, public), Function(name, public, code, path, stem=stem))
        for alias in getattr(module, "__virtual_aliases__", ()):
            for public, code in exported(module):
                self.functions.setdefault("%s.%s" % (alias, public), Function(alias, public, code, path, stem=stem))

    def why(self, error, stem):
        """The reason for a module that cannot be loaded, in Salt's words."""
        from halite import errors

        text = errors.text_of(error)
        if stem in self.asked:
            name = "salt.loaded.ext.%s.%s" % (PACKAGES[self.kind], stem)
            text = "Exception raised when processing __virtual__ function for %s. Module will not be loaded: %s" % (name, text)
        return text

    def init(self, stem, module):
        """Calls `__init__`; whether the module can be used."""
        init = module.__dict__.get("__init__")
        if not isinstance(init, types.FunctionType):
            return True
        try:
            init(module.__dict__["__opts__"])
            return True
        except Exception as error:
            from halite import errors

            self.reasons[stem] = "__init__ failed"
            self.loader.wire.tell("log", "error", "halite", "%s: __init__: %s\n%s" % (stem, errors.text_of(error), errors.trace(error)))
            return False

    def run(self, stem, path):
        import importlib.util

        name = "salt.loaded.ext.%s.%s" % (PACKAGES[self.kind], stem)
        spec = spec_of(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        defaults = self.give(module)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        own = module.__dict__.get("__opts__")
        if isinstance(own, dict) and own is not defaults["__opts__"]:
            # The module's own options, over those of the configuration.
            self.loader.spread(defaults["__opts__"], own)
        # Some modules define these for tools that check their code.
        module.__dict__.update(defaults)
        if "logging" in sys.modules:
            self.loader.log()
        return module

    def give(self, module):
        """What every module of the kind finds as globals."""
        loader = self.loader
        shared = {
            "__opts__": loader.spread({}, {}),
            "__grains__": loader.grains,
            "__pillar__": loader.pillar,
            "__context__": loader.context,
            # The functions of runners are their own kind.
            "__salt__": loader.runners if self.kind == "runners" else loader.salt,
            "__utils__": loader.utils,
            "__proxy__": {},
        }
        if self.kind == "engines":
            shared["__runners__"] = loader.runners
        if self.kind in ("states", "renderers"):
            shared["__states__"] = loader.states
        if self.kind == "states":
            shared["__reqs__"] = {}
        module.__dict__.update(shared)
        return shared

    def virtual(self, stem, module):
        """The name of a loaded module; nothing if it does not want to be one here."""
        ask = module.__dict__.get("__virtual__")
        if not isinstance(ask, types.FunctionType):
            return stem
        self.asked.add(stem)
        said = ask()
        self.asked.discard(stem)
        reason = None
        if isinstance(said, tuple):
            said, reason = said[0], (said[1] if len(said) > 1 else None)
        if not said:
            self.reasons[stem] = plain(reason) or ""
            named = module.__dict__.get("__virtualname__")
            if isinstance(named, str):
                self.reasons.setdefault(named, plain(reason) or "")
            return None
        named = module.__dict__.get("__virtualname__")
        if isinstance(named, str):
            return named
        return said if isinstance(said, str) else stem


def exported(module):
    """Public functions by their public names."""
    space = module.__dict__
    aliases = space.get("__func_alias__") or {}
    for name in space.get("__load__") or space.get("__all__") or list(space):
        code = space.get(name)
        if name.startswith("_") or not isinstance(code, types.FunctionType):
            continue
        # Not what it imports, nor what says that it lacks something (`salt.utils.decorators.depends`).
        if code.__module__ == module.__name__ and not getattr(code, "halite_missing", bool)():
            yield aliases.get(name, name), code


def describe(function):
    """A function as halite's own tables describe one."""
    from halite.signature import signature

    args, defaults, varargs, keywords = signature(function.code)
    module = sys.modules.get(getattr(function.code, "__module__", ""))
    return {
        "name": "%s.%s" % (function.module, function.name),
        "args": args,
        "defaults": [plain(one) for one in defaults],
        "varargs": varargs,
        "keywords": keywords,
        "doc": getattr(function.code, "__doc__", None) or "",
        "module_doc": getattr(module, "__doc__", None),
        "out": getattr(module, "__outputter__", {}).get(function.name),
        "path": function.path,
        "by": function.by,
    }
