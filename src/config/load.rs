//! Reads the configuration of the master, checks its options and fills in derived values.

use super::installed::{FoundSeries, InstalledSalt};
use super::{ConfigError, Flavour, JobCacheCompat, MasterConfig, Role, finish, paths};
use halite_wire::{Map, Transport};
use std::path::Path;

impl MasterConfig {
    /// Reads `dir/master` and what it includes.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &Path, flavour: Flavour) -> Result<Self, ConfigError> {
        let source = super::file::read(dir, Role::Master, flavour)?;
        Self::from_source(source)
    }

    /// The configuration that a file with these options in `dir` would give; no file is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let source =
            super::source::Source::from_values(options, dir, Role::Master, Flavour::of(dir))?;
        Self::from_source(source)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "master")?;
        finish::require_literal_true(&mut source, &["open_mode", "auto_accept"]);
        finish::roots(&mut source, "file_roots", "/srv/salt");
        finish::roots(&mut source, "pillar_roots", "/srv/pillar");
        let origin = source.origin.clone();
        let chosen = source.sets("salt_series");
        let mut c = Self::read(source)?;
        let mut unused = c.extra.clone();
        if !c.legacy_salt.is_empty() {
            // The runner `ssh.cmd` of an installed Salt has them.
            unused
                .0
                .retain(|(name, _)| !name.as_str().is_some_and(is_for_ssh));
        }
        let unused = finish::unused_option_warnings(&unused, Role::Master, &origin);
        c.warnings.extend(unused);
        let checks = finish::Checks::new(&origin);
        checks.hash_type(&mut c.hash_type)?;
        checks.signing("publish_signing_algorithm", &c.publish_signing_algorithm)?;
        checks.signing("signing_algorithm", &c.signing_algorithm)?;
        checks.positive("worker_threads", c.worker_threads.into())?;
        checks.positive("runner_processes", c.runner_processes.into())?;
        checks.positive("max_request_size", c.max_request_size)?;
        checks.positive("max_event_size", c.max_event_size)?;
        checks.positive("file_buffer_size", c.file_buffer_size)?;
        checks.positive("salt_cp_chunk_size", c.salt_cp_chunk_size)?;
        checks.address("metrics_address", &c.metrics_address)?;
        finish::logs!(c);
        finish::granular_levels(&mut c.log_granular_levels, &mut c.warnings);
        if c.keep_jobs != 24 && c.keep_jobs_seconds == 86400 {
            c.keep_jobs_seconds = c.keep_jobs.saturating_mul(3600);
            let text = "the option 'keep_jobs' is an old name; set 'keep_jobs_seconds'";
            c.warnings.push(text.to_owned());
        }
        c.event_return.retain(|name| !name.is_empty());
        let unusable = super::returners::unusable_returners(&c);
        c.warnings.extend(unusable);
        if c.external_auth.get("auto").is_some() {
            let text =
                "external_auth: 'auto' takes every password for every user; it is for tests only";
            c.warnings.push(text.to_owned());
        }
        c.resolve_paths();
        c.find_stock_tools(chosen);
        // Gateways use the master's id, which is set by now.
        let unknown = c.check_gateways(&checks)?;
        c.warnings.extend(unknown);
        let unknown = c.check_cluster(&checks)?;
        c.warnings.extend(unknown);
        let unknown = c.check_api(&checks)?;
        c.warnings.extend(unknown);
        c.read_ports(&checks)?;
        c.check_balancers(&checks)?;
        c.warnings
            .extend(super::transport::unknown_options(&c.transport_opts));
        let has_tls = c.ports().iter().any(|p| p.transport != Transport::ZeroMq);
        if c.tls().is_some() && !has_tls {
            c.warnings.push(super::tls::NO_TLS.to_owned());
        }
        if let Some(option) = c.excludes_private().filter(|_| c.publish_private) {
            let text = format!("'publish_private' has no effect with {option}");
            c.warnings.push(text);
        }
        c.read_pools(&checks)?;
        Ok(c)
    }

    /// Checks the paths of the sockets, which only the master itself needs all of.
    ///
    /// # Errors
    /// The system does not allow paths of that length.
    pub fn check_sockets(&self) -> Result<(), ConfigError> {
        let pools = self.pools();
        let longest = pools.iter().map(|p| p.name.len() + "workers-.ipc".len());
        let longest = longest
            .max()
            .unwrap_or(0)
            .max("master_event_pull.ipc".len());
        paths::check_sockets(&self.sock_dir, &"x".repeat(longest))
    }

    /// Fills in what depends on the Salt that is installed on this host; `chosen`: `salt_series` is set.
    fn find_stock_tools(&mut self, chosen: bool) {
        let salt = InstalledSalt::find(Path::new("/"));
        if self.job_cache_compat == JobCacheCompat::Auto {
            let stock = salt.is_some()
                || self.flavour == Flavour::Salt
                || finish::is_for_stock(&self.extra, Role::Master);
            self.job_cache_compat = if stock {
                JobCacheCompat::Full
            } else {
                JobCacheCompat::Load
            };
        }
        if chosen {
            return;
        }
        let found = match salt {
            Some(salt) => salt.series(),
            None => FoundSeries::of_cache(&self.cachedir),
        };
        if let Some(found) = found {
            found.apply(&mut self.salt_series, &mut self.warnings);
        }
    }

    /// Every option in effect, including unknown ones.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        let dir = self.conf_file.parent().unwrap_or(Path::new("/"));
        map.set("config_dir", dir.to_string_lossy().as_ref());
        map.set("__role", "master");
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}

/// Whether an option is one of salt-ssh.
fn is_for_ssh(name: &str) -> bool {
    name.starts_with("ssh_") || name.starts_with("roster")
}
