"""All functions of an installed Salt (`legacy_salt`). Through `__salt__` they call halite's own and those of users first."""
import salt.config
import salt.loader
import salt.version


class Installed:
    BY = "Salt %s" % salt.version.__version__

    def __init__(self, loader):
        self.loader = loader
        self.loaders = {}
        self.opts = None

    def find(self, kind, name):
        try:
            return self.of(kind)[name[: -len(".render")] if kind == "renderers" else name]
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
            self.opts = salt.config.minion_config(None)
            self.opts.update(self.loader.opts)
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
