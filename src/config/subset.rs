//! Subsets of the master's options that minions have too, since file server and renderer run on both.
//!
//! Names, types and defaults come from the master's table. A subset is copied from a [`MasterConfig`], or read from the
//! options of a minion; then options marked `master` keep their default.

use super::kinds::{Decrypt, ExtPillars, Items, Roots, SaltSeries};
use super::source::Source;
use super::{ConfigError, Flavour, MASTER_OPTIONS, MasterConfig, OptionValue, Role, finish};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

macro_rules! subset {
    (
        $(#[$meta:meta])*
        $name:ident;
        both { $($option:ident: $type:ty,)* }
        master { $($own:ident: $own_type:ty,)* }
        derived { $($(#[doc = $help:literal])+ $derived:ident: $derived_type:ty = $of_master:expr, $of_minion:expr;)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(#[doc = concat!("The option `", stringify!($option), "`.")] pub $option: $type,)*
            $(#[doc = concat!("The option `", stringify!($own), "`.")] pub $own: $own_type,)*
            $($(#[doc = $help])+ pub $derived: $derived_type,)*
        }

        impl From<&MasterConfig> for $name {
            fn from(config: &MasterConfig) -> $name {
                $(let $derived: fn(&MasterConfig) -> $derived_type = $of_master;)*
                $name {
                    $($option: Clone::clone(&config.$option),)*
                    $($own: Clone::clone(&config.$own),)*
                    $($derived: $derived(config),)*
                }
            }
        }

        impl $name {
            fn read(source: &mut Source) -> Result<$name, ConfigError> {
                $(let $derived: fn(&mut Source) -> Result<$derived_type, ConfigError> = $of_minion;)*
                $(let $derived = $derived(source)?;)*
                Ok($name {
                    $($option: take(source, stringify!($option))?,)*
                    $($own: default(source, stringify!($own))?,)*
                    $($derived,)*
                })
            }
        }
    };
}

subset! {
    /// Jinja options.
    JinjaOptions;
    both {
        jinja_env: Map,
        jinja_sls_env: Map,
        jinja_lstrip_blocks: bool,
        jinja_trim_blocks: bool,
    }
    master {}
    derived {
        /// The option `allow_undefined`: undefined variables render as the empty text.
        allow_undefined: bool = |c| truthy(&c.extra, "allow_undefined"),
            |s| Ok(truthy(&s.values, "allow_undefined"));
    }
}

subset! {
    /// Options of renderers and pillars.
    RenderOptions;
    both {
        cachedir: PathBuf,
        renderer: String,
        renderer_blacklist: Vec<String>,
        renderer_whitelist: Vec<String>,
        pillar_roots: Roots,
        pillarenv: Option<String>,
        pillarenv_from_saltenv: bool,
        pillar_opts: bool,
        pillar_safe_render_error: bool,
        pillar_source_merging_strategy: String,
        pillar_merge_lists: bool,
        pillar_includes_override_sls: bool,
        ext_pillar: ExtPillars,
        ext_pillar_first: bool,
        on_demand_ext_pillar: Vec<String>,
        state_top: String,
        decrypt_pillar: Decrypt,
        decrypt_pillar_delimiter: String,
        decrypt_pillar_default: String,
        decrypt_pillar_renderers: Vec<String>,
        gpg_keydir: String,
        gpg_decrypt_must_succeed: Option<bool>,
        gpg_cache: bool,
        gpg_cache_ttl: u64,
        git_pillar_base: String,
        git_pillar_branch: String,
        git_pillar_env: String,
        git_pillar_root: String,
        git_pillar_fallback: String,
        git_pillar_refspecs: Vec<String>,
        git_pillar_user: String,
        git_pillar_password: String,
        git_pillar_privkey: String,
        git_pillar_proxy: String,
        git_pillar_includes: bool,
        git_pillar_update_interval: u64,
        git_pillar_ssl_verify: bool,
    }
    master {
        salt_series: SaltSeries,
        request_timeout: u64,
        nodegroups: Map,
        env_order: Vec<String>,
        pillar_cache: bool,
        pillar_cache_ttl: u64,
        pillar_cache_backend: String,
    }
    derived {
        /// Jinja options.
        jinja: JinjaOptions = |c| c.into(), JinjaOptions::read;
        /// The directory of the configuration file.
        conf_dir: PathBuf = |c| dir_of(&c.conf_file), |s| Ok(dir_of(&s.conf_file));
    }
}

subset! {
    /// Options of the file server.
    FileServerOptions;
    both {
        cachedir: PathBuf,
        hash_type: String,
        fileserver_backend: Vec<String>,
        fileserver_followsymlinks: bool,
        fileserver_ignoresymlinks: bool,
        file_roots: Roots,
        file_ignore_regex: Vec<String>,
        file_ignore_glob: Vec<String>,
        file_buffer_size: u64,
        gitfs_remotes: Items,
        gitfs_base: String,
        gitfs_root: String,
        gitfs_mountpoint: String,
        gitfs_saltenv: Map,
        gitfs_ref_types: Vec<String>,
        gitfs_disable_saltenv_mapping: bool,
        gitfs_saltenv_whitelist: Vec<String>,
        gitfs_saltenv_blacklist: Vec<String>,
        gitfs_fallback: String,
        gitfs_refspecs: Vec<String>,
        gitfs_update_interval: u64,
        gitfs_ssl_verify: bool,
        gitfs_user: String,
        gitfs_password: String,
        gitfs_privkey: String,
        gitfs_proxy: String,
    }
    master {
        fileserver_list_cache_time: u64,
        file_recv: bool,
        minionfs_env: String,
        minionfs_mountpoint: String,
        minionfs_whitelist: Vec<String>,
        minionfs_blacklist: Vec<String>,
    }
    derived {}
}

impl JinjaOptions {
    /// The Jinja options of a minion.
    ///
    /// # Errors
    /// An option of the wrong type.
    pub fn of_minion(opts: &Map) -> Result<JinjaOptions, ConfigError> {
        JinjaOptions::read(&mut source(opts)?)
    }
}

impl RenderOptions {
    /// The options with which a minion compiles its own pillar.
    ///
    /// # Errors
    /// An option of the wrong type.
    pub fn of_minion(opts: &Map) -> Result<RenderOptions, ConfigError> {
        let mut source = source(opts)?;
        finish::roots(&mut source, "pillar_roots", "/srv/pillar");
        RenderOptions::read(&mut source)
    }

    /// Directory for cached pillars (`pillar_cache`).
    pub fn pillar_cache_dir(&self) -> PathBuf {
        self.cachedir.join("pillar_cache")
    }

    /// Directory for mirrors of the pillar's repositories.
    pub fn git_pillar_dir(&self) -> PathBuf {
        self.cachedir.join("git_pillar")
    }

    /// The keyring of the renderer `gpg`.
    pub fn gpg_home(&self) -> PathBuf {
        if self.gpg_keydir.is_empty() {
            self.conf_dir.join("gpgkeys")
        } else {
            PathBuf::from(&self.gpg_keydir)
        }
    }

    /// Whether undecryptable data is an error: `gpg_decrypt_must_succeed`, else the default of the series.
    pub fn must_decrypt(&self) -> bool {
        self.gpg_decrypt_must_succeed
            .unwrap_or(self.salt_series != SaltSeries::S3006)
    }
}

impl FileServerOptions {
    /// The options with which a minion serves its own `file_roots`.
    ///
    /// # Errors
    /// An option of the wrong type, or an unknown `hash_type`.
    pub fn of_minion(opts: &Map) -> Result<FileServerOptions, ConfigError> {
        let mut source = source(opts)?;
        finish::roots(&mut source, "file_roots", "/srv/salt");
        let mut options = FileServerOptions::read(&mut source)?;
        let nowhere = HashMap::new();
        let checks = finish::Checks::new(&nowhere);
        checks.hash_type(&mut options.hash_type)?;
        checks.positive("file_buffer_size", options.file_buffer_size)?;
        Ok(options)
    }

    /// The same options without list caching, so that changed files are visible at once.
    #[must_use]
    pub fn uncached(mut self) -> FileServerOptions {
        self.fileserver_list_cache_time = 0;
        self
    }

    /// The same options without the files that minions have sent: for code that the master runs.
    #[must_use]
    pub fn without_minions(mut self) -> FileServerOptions {
        let is_of_minions = |name: &String| ["minion", "minionfs"].contains(&name.as_str());
        self.fileserver_backend.retain(|name| !is_of_minions(name));
        self
    }
}

fn source(opts: &Map) -> Result<Source, ConfigError> {
    let conf_file = Path::new(opts.str("conf_file").unwrap_or("/"));
    let dir = conf_file.parent().unwrap_or(conf_file);
    Source::from_values(opts.clone(), dir, Role::Minion, Flavour::of(dir))
}

/// An option as the minion sets it.
fn take<T: OptionValue>(source: &mut Source, name: &str) -> Result<T, ConfigError> {
    source.take(name, default_of(name))
}

/// The default of an option that minions do not have.
fn default<T: OptionValue>(source: &mut Source, name: &str) -> Result<T, ConfigError> {
    source.values.remove(name);
    take(source, name)
}

fn default_of(name: &str) -> &'static str {
    let option = MASTER_OPTIONS.iter().find(|option| option.name == name);
    option.map_or("", |option| option.default)
}

fn dir_of(conf_file: &Path) -> PathBuf {
    conf_file.parent().unwrap_or(Path::new(".")).to_owned()
}

fn truthy(options: &Map, name: &str) -> bool {
    options.get(name).is_some_and(Value::truthy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    /// Both sides have the same defaults, and every option of a subset is in the master's table.
    #[test]
    fn masters_and_minions_have_the_same_options() {
        let conf = Path::new("/etc/halite");
        let master = MasterConfig::from_map(Map::new(), conf).unwrap();
        let opts = map! {"conf_file" => "/etc/halite/minion", "cachedir" => "/c"};
        let mut of_master = RenderOptions::from(&master);
        of_master.cachedir = "/c".into();
        let of_minion = RenderOptions::of_minion(&opts).unwrap();
        assert_eq!(format!("{of_master:?}"), format!("{of_minion:?}"));
        let mut of_master = FileServerOptions::from(&master);
        of_master.cachedir = "/c".into();
        let of_minion = FileServerOptions::of_minion(&opts).unwrap();
        assert_eq!(format!("{of_master:?}"), format!("{of_minion:?}"));
    }

    #[test]
    fn minions_set_what_is_theirs() {
        let opts = map! {
            "conf_file" => "/etc/halite/minion", "jinja_trim_blocks" => true, "allow_undefined" => true,
            "pillar_roots" => map! {"base" => vec!["/p".to_owned()]}, "gpg_keydir" => "",
            "pillar_cache" => true, "hash_type" => "SHA512", "fileserver_list_cache_time" => 5,
        };
        let options = RenderOptions::of_minion(&opts).unwrap();
        assert!(options.jinja.jinja_trim_blocks && options.jinja.allow_undefined);
        assert_eq!(options.pillar_roots.get("base").unwrap(), ["/p"]);
        assert_eq!(options.gpg_home(), Path::new("/etc/halite/gpgkeys"));
        assert!(!options.pillar_cache, "it is the master's own");
        let options = FileServerOptions::of_minion(&opts).unwrap();
        assert_eq!(
            (
                options.hash_type.as_str(),
                options.fileserver_list_cache_time
            ),
            ("sha512", 20)
        );
        let bad = map! {"hash_type" => "crc"};
        assert!(FileServerOptions::of_minion(&bad).is_err());
        assert!(JinjaOptions::of_minion(&map! {"jinja_env" => 5}).is_err());
    }
}
