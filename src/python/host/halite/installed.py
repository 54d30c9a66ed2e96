"""All functions of an installed Salt (`legacy_salt`). Through `__salt__` they call halite's own and those of users first."""
import salt.config
import salt.loader
import salt.loader.lazy
import salt.version


def own_names():
    """Salt's loaders read files of users under other names than halite's: they would run them into the very same modules."""
    kind = salt.loader.lazy._mod_type

    def kind_of(path):
        found = kind(path)
        return "ext_of_salt" if found == "ext" else found

    salt.loader.lazy._mod_type = kind_of


own_names()

# Kinds whose loaders know the module's name alone.
FILTERED = ("renderers", "pillar", "tops", "output")


MASTER_CONFIG = salt.config.master_config


def own_master(loader):
    """Salt's clients find halite's master: its configuration is halite's, whatever file they name."""

    def config(*args, **kwargs):
        return dict(loader.salts().options())

    salt.config.master_config = salt.config.client_config = config


class Installed:
    BY = "Salt %s" % salt.version.__version__

    def __init__(self, loader):
        self.loader = loader
        self.loaders = {}
        self.opts = None

    def find(self, kind, name):
        try:
            return self.of(kind)[name.rpartition(".")[0] if kind in FILTERED else name]
        except KeyError:
            return None

    def of(self, kind):
        """Salt's own loader of a kind of modules."""
        if kind not in self.loaders:
            self.loaders[kind] = getattr(self, kind)()
        return self.loaders[kind]

    def renew(self):
        """After options, grains or pillar have changed: Salt's loaders have copies of them."""
        self.loaders.clear()
        self.opts = None

    def options(self):
        if self.opts is None:
            is_master = self.loader.opts.get("__role") == "master"
            self.opts = MASTER_CONFIG(None) if is_master else salt.config.minion_config(None)
            self.opts.update(self.loader.opts)
            master = self.opts.get("master")
            if not is_master and master:
                # Salt's minion sets it when it has found its master.
                host = master if isinstance(master, str) else master[0]
                port = self.opts.get("master_port", 4506)
                self.opts.setdefault("master_uri", "tcp://%s:%s" % ("[%s]" % host if ":" in host else host, port))
        return self.opts

    def utils(self):
        return salt.loader.utils(self.options(), context=self.loader.context)

    def modules(self):
        found = salt.loader.minion_mods(self.options(), context=self.loader.context, utils=self.of("utils"))
        return self.packed(found, "__salt__", self.loader.salt)

    def states(self):
        found = salt.loader.states(self.options(), self.loader.salt, self.of("utils"), self.serializers(), context=self.loader.context)
        found = self.packed(found, "__salt__", self.loader.salt)
        return self.packed(found, "__states__", self.loader.states)

    def serializers(self):
        return salt.loader.serializers(self.options())

    def renderers(self):
        return salt.loader.render(self.options(), self.loader.salt, states=self.of("states"))

    def returners(self):
        return salt.loader.returners(self.options(), self.loader.salt, context=self.loader.context)

    def beacons(self):
        return salt.loader.beacons(self.options(), self.loader.salt, context=self.loader.context)

    def runners(self):
        return salt.loader.runner(self.options(), utils=self.of("utils"), context=self.loader.context)

    def wheel(self):
        return salt.loader.wheels(self.options(), context=self.loader.context)

    def pillar(self):
        return salt.loader.pillars(self.options(), self.loader.salt, context=self.loader.context)

    def tops(self):
        return salt.loader.tops(self.options())

    def sdb(self):
        return salt.loader.sdb(self.options(), functions=self.loader.salt, utils=self.of("utils"))

    def output(self):
        return salt.loader.outputters(self.options())

    def executors(self):
        return salt.loader.executors(self.options(), functions=self.loader.salt, context=self.loader.context)

    def matchers(self):
        return salt.loader.matchers(self.options())

    def auth(self):
        return salt.loader.auth(self.options())

    def engines(self):
        runners = self.of("runners") if self.loader.opts.get("__role") == "master" else {}
        return salt.loader.engines(self.options(), self.loader.salt, runners, self.of("utils"))

    def grains(self):
        """Core grains are halite's."""
        return {}

    @staticmethod
    def packed(found, name, value):
        """Gives Salt's modules something of ours for a global of theirs."""
        found.pack[name] = value
        if found.pack_self == name:
            found.pack_self = None
        return found
