//! Our program for Python, sent to each host: one file per module.

use halite_wire::Map;

macro_rules! sources {
    ($($name:literal => $file:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("host/", $file)))),*]
    };
}

/// What Python runs first.
pub const BOOTSTRAP: &str = include_str!("host/bootstrap.py");

/// Modules by name; `salt` is the part of Salt's package that users' modules import most.
const MODULES: &[(&str, &str)] = sources![
    "halite" => "halite/__init__.py",
    "halite.afterwards" => "halite/afterwards.py",
    "halite.beside" => "halite/beside.py",
    "halite.check" => "halite/check.py",
    "halite.errors" => "halite/errors.py",
    "halite.finder" => "halite/finder.py",
    "halite.functions" => "halite/functions.py",
    "halite.grains" => "halite/grains.py",
    "halite.installed" => "halite/installed.py",
    "halite.loader" => "halite/loader.py",
    "halite.logs" => "halite/logs.py",
    "halite.main" => "halite/main.py",
    "halite.places" => "halite/places.py",
    "halite.renderers" => "halite/renderers.py",
    "halite.signature" => "halite/signature.py",
    "halite.states" => "halite/states.py",
    "halite.values" => "halite/values.py",
    "halite.wire" => "halite/wire.py",
    "salt" => "salt/__init__.py",
    "salt._compat" => "salt/_compat.py",
    "salt.client" => "salt/client.py",
    "salt.config" => "salt/config.py",
    "salt.defaults" => "salt/defaults/__init__.py",
    "salt.defaults.exitcodes" => "salt/defaults/exitcodes.py",
    "salt.exceptions" => "salt/exceptions.py",
    "salt.ext" => "salt/ext/__init__.py",
    "salt.ext.six" => "salt/ext/six.py",
    "salt.loader" => "salt/loader.py",
    "salt.modules" => "salt/modules/__init__.py",
    "salt.modules.cmdmod" => "salt/modules/cmdmod.py",
    "salt.returners" => "salt/returners.py",
    "salt.runner" => "salt/runner.py",
    "salt.syspaths" => "salt/syspaths.py",
    "salt.utils" => "salt/utils/__init__.py",
    "salt.utils.args" => "salt/utils/args.py",
    "salt.utils.compat" => "salt/utils/compat.py",
    "salt.utils.context" => "salt/utils/context.py",
    "salt.utils.data" => "salt/utils/data.py",
    "salt.utils.datastructures" => "salt/utils/datastructures.py",
    "salt.utils.dateutils" => "salt/utils/dateutils.py",
    "salt.utils.decorators" => "salt/utils/decorators.py",
    "salt.utils.decorators.jinja" => "salt/utils/decorators/jinja.py",
    "salt.utils.decorators.path" => "salt/utils/decorators/path.py",
    "salt.utils.dictdiffer" => "salt/utils/dictdiffer.py",
    "salt.utils.dictupdate" => "salt/utils/dictupdate.py",
    "salt.utils.event" => "salt/utils/event.py",
    "salt.utils.files" => "salt/utils/files.py",
    "salt.utils.hashutils" => "salt/utils/hashutils.py",
    "salt.utils.http" => "salt/utils/http.py",
    "salt.utils.jid" => "salt/utils/jid.py",
    "salt.utils.json" => "salt/utils/json.py",
    "salt.utils.network" => "salt/utils/network.py",
    "salt.utils.odict" => "salt/utils/odict.py",
    "salt.utils.path" => "salt/utils/path.py",
    "salt.utils.platform" => "salt/utils/platform.py",
    "salt.utils.state" => "salt/utils/state.py",
    "salt.utils.stringutils" => "salt/utils/stringutils.py",
    "salt.utils.systemd" => "salt/utils/systemd.py",
    "salt.utils.templates" => "salt/utils/templates.py",
    "salt.utils.url" => "salt/utils/url.py",
    "salt.utils.user" => "salt/utils/user.py",
    "salt.utils.versions" => "salt/utils/versions.py",
    "salt.utils.yaml" => "salt/utils/yaml.py",
    "salt.version" => "salt/version.py",
    "salt.wheel" => "salt/wheel.py",
];

/// All of it, as the bootstrap reads it; without our part of `salt` where Salt itself is installed.
pub fn all(has_salt: bool) -> Map {
    let ours = |name: &str| !has_salt || name.starts_with("halite");
    MODULES
        .iter()
        .copied()
        .filter(|(name, _)| ours(name))
        .collect()
}
