//! What Debian's Apache has enabled: links in a directory of `/etc/apache2`, which `a2enmod(8)` and its like make.

use crate::execution::declare::Result;
use crate::execution::{Call, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// A kind of thing that can be enabled.
pub struct Kind {
    /// The argument that names it.
    arg: &'static str,
    /// As the answers call it.
    shown: &'static str,
    /// The directory of the links.
    dir: &'static str,
    /// What the names of links end with, unless they are named in full. The first is added to others.
    ends: &'static [&'static str],
    enable: &'static str,
    disable: &'static str,
}

/// Sites.
pub const SITE: Kind = Kind {
    arg: "site",
    shown: "Site",
    dir: "sites-enabled",
    ends: &[".conf"],
    enable: "a2ensite",
    disable: "a2dissite",
};

/// Modules.
pub const MOD: Kind = Kind {
    arg: "mod",
    shown: "Mod",
    dir: "mods-enabled",
    ends: &[".load", ".conf"],
    enable: "a2enmod",
    disable: "a2dismod",
};

/// Pieces of configuration.
pub const CONF: Kind = Kind {
    arg: "conf",
    shown: "Conf",
    dir: "conf-enabled",
    ends: &[".conf"],
    enable: "a2enconf",
    disable: "a2disconf",
};

impl Kind {
    /// Whether it is enabled.
    ///
    /// # Errors
    /// It has none.
    pub fn check(&self, call: &mut Call<'_>) -> Result {
        let name = python::str(call.arg(self.arg));
        let full = self.ends.iter().any(|end| name.ends_with(end));
        let file = if full {
            name.clone()
        } else {
            format!("{name}{}", self.ends[0])
        };
        let is_link = |file: &str| {
            Path::new("/etc/apache2")
                .join(self.dir)
                .join(file)
                .is_symlink()
        };
        let first = self.arg == "site" && name == "default" && is_link(&format!("000-{file}"));
        Ok((is_link(&file) || first).into())
    }

    /// Enables or disables it.
    ///
    /// # Errors
    /// The program is not there.
    pub fn change(&self, call: &mut Call<'_>, enable: bool) -> Result {
        let name = python::str(call.arg(self.arg));
        let (program, verb, word, missing) = if enable {
            (self.enable, "Enable", "enabled", 1)
        } else {
            (self.disable, "Disable", "disabled", 256)
        };
        let argv: Vec<String> = vec![program.to_owned(), name.clone()];
        let kwargs = map! {"python_shell" => false};
        let status = call.salt("cmd.retcode", vec![argv.into()], kwargs)?;
        let mut done = Map::new();
        done.set("Name", format!("Apache2 {verb} {}", self.shown));
        done.set(self.shown, name.as_str());
        let status = match status {
            Value::Int(0) => format!("{} {name} {word}", self.shown).into(),
            Value::Int(code) if code == missing => {
                format!("{} {name} Not found", self.shown).into()
            }
            other => other,
        };
        done.set("Status", status);
        Ok(done.into())
    }
}
