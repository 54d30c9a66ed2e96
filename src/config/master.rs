//! Options of the master.

use super::kinds::{BusFraming, JobCacheCompat, Roots, SaltSeries};
use super::paths::{self, below, log_below};
use super::table::options;
use super::{ConfigError, Flavour, Role, finish};
use crate::wire::{Map, Value};
use std::path::{Path, PathBuf};

options! {
    /// Configuration of the master and of the commands beside it.
    MasterConfig,
    /// Every option of the master.
    MASTER_OPTIONS;

    Network {
        /// Address that the two ports listen on.
        interface: String = "0.0.0.0";
        /// Port on which jobs are published to the minions.
        publish_port: u16 = "4505";
        /// Port on which minions sign in, return results and fetch files.
        ret_port: u16 = "4506";
        /// Listen on IPv6. Empty: decided by the form of `interface`.
        ipv6: Option<bool> = "null";
        /// Number of worker processes that answer requests, unless `worker_pools` says otherwise.
        worker_threads: u32 = "5";
        /// Named pools of workers, each with `worker_count` and the list of `commands` it answers; exactly
        /// one pool takes `'*'`.
        worker_pools: Map = "{}";
        /// Use `worker_pools`. When false, one pool of `worker_threads` workers answers everything.
        worker_pools_enabled: bool = "true";
        /// Requests that may wait per class of commands; further ones are turned away.
        request_queue_limit: u32 = "20000";
        /// Bytes of the largest request that is accepted.
        max_request_size: u64 = "134217728";
        /// Seconds after which a request that still waits is dropped.
        request_timeout: u64 = "60";
        /// Account that the processes run as.
        user: String = "root";
        /// Directory put in front of the paths below, except `file_roots`.
        root_dir: PathBuf = "/";
        /// File with the process id.
        pidfile: PathBuf = "/var/run/{product}-master.pid";
        /// Directory of the local sockets.
        sock_dir: PathBuf = "/var/run/{product}/master";
        /// Directory of the keys of the master and the minions.
        pki_dir: PathBuf = "/etc/{product}/pki/master";
        /// Directory of jobs, minion data and tokens.
        cachedir: PathBuf = "/var/cache/{product}/master";
        /// Open files that a process may have.
        max_open_files: u64 = "100000";
        /// Connections that may wait to be accepted, per port.
        zmq_backlog: i32 = "1000";
        /// Publications that may wait for one minion; further ones are dropped for it.
        pub_hwm: i32 = "1000";
        /// Send a publication only to the minions it is for. The minions must have this set too.
        zmq_filtering: bool = "false";
        /// Let the system probe idle connections.
        tcp_keepalive: bool = "true";
        /// Idle seconds before the first probe; -1 is the default of the system.
        tcp_keepalive_idle: i32 = "300";
        /// Lost probes that end a connection; -1 is the default of the system.
        tcp_keepalive_cnt: i32 = "-1";
        /// Seconds between probes; -1 is the default of the system.
        tcp_keepalive_intvl: i32 = "-1";
        /// Milliseconds between heartbeats of a ZeroMQ connection; 0 turns them off.
        zmq_heartbeat_ivl: i32 = "10000";
        /// Milliseconds without a heartbeat that end a connection.
        zmq_heartbeat_timeout: i32 = "30000";
        /// Seconds between rounds of maintenance.
        loop_interval: u64 = "60";
        /// Minions that may be connected; 0 is no limit.
        max_minions: u32 = "0";
        /// Release of Salt whose tools share this host: 3006, 3007 or 3008. Decides the layout of caches.
        salt_series: SaltSeries = "3008";
        /// Frames of the event bus: `auto` (what the tools of `salt_series` read), `bare` or `prefixed`.
        event_bus_framing: BusFraming = "auto";
        /// Events that may wait for one slow listener; further ones are dropped and counted.
        event_queue_limit: u32 = "10000";
        /// Bytes that may wait for one slow listener; 0 is no limit.
        ipc_write_buffer: u64 = "0";
        /// Bytes of the largest event.
        max_event_size: u64 = "1048576";
        /// Address and port that tell Prometheus what this master does, at `/metrics` and `/healthz`; whoever can
        /// connect can read. Empty: none.
        metrics_address: String = "127.0.0.1:4507";
        /// Id of the master itself. Empty: the host name with `_master`.
        id: String = "''";
        /// Files read after this one, in the order of their names; a later value replaces an earlier one.
        default_include: String = "master.d/*.conf";
        /// Further files or patterns to read.
        include: Vec<String> = "[]";
    }

    Security {
        /// Accept the key of every minion. For tests only.
        auto_accept: bool = "false";
        /// Accept every key, changed ones too, and turn the authentication off. For tests only.
        open_mode: bool = "false";
        /// File of ids or patterns whose keys are accepted by themselves.
        autosign_file: Option<PathBuf> = "null";
        /// File of ids or patterns whose keys are rejected by themselves.
        autoreject_file: Option<PathBuf> = "null";
        /// Minutes for which an id put into `minions_autosign` stays good.
        autosign_timeout: u64 = "120";
        /// Directory with one file per grain; a key is accepted if the grain has a value listed there.
        autosign_grains_dir: Option<PathBuf> = "null";
        /// Accept keys and key directories that the group may read.
        permissive_pki_access: bool = "false";
        /// Bits of new RSA keys.
        keysize: u32 = "2048";
        /// Sign the public key of the master in answers to minions that sign in.
        master_sign_pubkey: bool = "false";
        /// Name of the key pair that signs it.
        master_sign_key_name: String = "master_sign";
        /// File in `pki_dir` with a signature made before.
        master_pubkey_signature: Option<String> = "null";
        /// Use that file instead of signing each time.
        master_use_pubkey_signature: bool = "false";
        /// Sign every publication.
        sign_pub_messages: bool = "true";
        /// How publications are signed: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        publish_signing_algorithm: String = "PKCS1v15-SHA1";
        /// How the public key of the master is signed: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        signing_algorithm: String = "PKCS1v15-SHA1";
        /// Lowest version of the envelope that peers may speak; 3 is the lowest that this master knows.
        minimum_auth_version: u32 = "3";
        /// Seconds after which the session key changes.
        publish_session: u64 = "86400";
        /// Change the session key when a key is deleted or rejected.
        rotate_aes_key: bool = "true";
        /// Ping all minions after the session key changed, so that they fetch the new one.
        ping_on_rotate: bool = "false";
        /// Keep grains and pillar of a minion whose key is deleted.
        preserve_minion_cache: bool = "false";
        /// Seconds that a request may be old; 0 is no limit.
        request_server_ttl: u64 = "0";
        /// Refuse returns that are not signed by the minion.
        require_minion_sign_messages: bool = "false";
        /// Drop returns whose signature is wrong.
        drop_messages_signature_fail: bool = "false";
        /// Let minions ask for the removal of their own key.
        allow_minion_key_revoke: bool = "true";
    }

    Jobs {
        /// Seconds that `salt` waits for returns before it asks what still runs.
        timeout: u64 = "5";
        /// Seconds that it waits for the answer to that question.
        gather_job_timeout: u64 = "10";
        /// Seconds that a client waits for the master to publish a job.
        publish_timeout: u64 = "30";
        /// Name the minions that did not return.
        show_timeout: bool = "true";
        /// Print the job id of every command.
        show_jid: bool = "false";
        /// Print a summary after every command.
        cli_summary: bool = "false";
        /// Number of minions from which on a command runs in batches; 0 is never.
        batch_safe_limit: u32 = "0";
        /// Minions in one such batch.
        batch_safe_size: u32 = "8";
        /// Named compound targets.
        nodegroups: Map = "{}";
        /// This master serves lower masters.
        order_masters: bool = "false";
        /// Hours for which jobs are kept. Old name; `keep_jobs_seconds` wins.
        keep_jobs: u64 = "24";
        /// Seconds for which jobs are kept; 0 is for ever.
        keep_jobs_seconds: u64 = "86400";
        /// Keep returns.
        job_cache: bool = "true";
        /// What of it stock tools can read: `none`, `load` (enough for the stock CLI) or `full`.
        job_cache_compat: JobCacheCompat = "load";
        /// Add the process id to job ids.
        unique_jid: bool = "false";
        /// Database that gets a copy of every job and return: `local_cache` (none; the job log only), `pgjsonb`,
        /// `postgres`, `redis` or `sqlite3`.
        master_job_cache: String = "local_cache";
        /// Returner that minions use for every job of the local clients; the master gives it the loads.
        ext_job_cache: String = "''";
        /// Returners that get the events of the bus: `pgjsonb`, `postgres` or `rawfile_json`.
        event_return: Vec<String> = "[]";
        /// Events that are collected before they are written; 0 writes at once.
        event_return_queue: u32 = "0";
        /// Seconds after which collected events are written in any case; 0 waits until there are enough.
        event_return_queue_max_seconds: u64 = "0";
        /// Globs of tags; only such events are written. Empty: all.
        event_return_whitelist: Vec<String> = "[]";
        /// Globs of tags of events that are not written.
        event_return_blacklist: Vec<String> = "[]";
        /// Runners started through the master that run at once; further ones wait.
        runner_processes: u32 = "20";
        /// Runners that may wait; further ones are refused.
        runner_queue_limit: u32 = "100";
        /// Directory of the queues of `queue.*`.
        sqlite_queue_dir: PathBuf = "/var/cache/{product}/master/queues";
        /// Queue of `queue.insert_runner` and `queue.process_runner`: a map with `queue` and `backend`.
        runner_queue: Map = "{}";
        /// Keep results of runners.
        runner_returns: bool = "true";
        /// Keep grains and pillar of the minions; targeting by them needs it.
        minion_data_cache: bool = "true";
        /// Fire an event when they change.
        minion_data_cache_events: bool = "true";
        /// Fire an event for every sign-in.
        auth_events: bool = "true";
    }

    Files {
        /// Directories of the file server, per environment.
        file_roots: Roots = "{base: [/srv/salt, /srv/spm/salt]}";
        /// How top files of several environments are merged: `merge`, `merge_all` or `same`.
        top_file_merging_strategy: String = "merge";
        /// Order of the environments when top files are merged.
        env_order: Vec<String> = "[]";
        /// Environment whose top file counts with the strategy `same`.
        default_top: String = "base";
        /// How state and pillar files are rendered.
        renderer: String = "jinja|yaml";
        /// Stop at the first state that fails.
        failhard: bool = "false";
        /// Name of the top file.
        state_top: String = "top.sls";
        /// Environment of the top file.
        state_top_saltenv: Option<String> = "null";
        /// Run states in the order of their files.
        state_auto_order: bool = "true";
        /// Fire an event per state.
        state_events: bool = "false";
        /// Run states of one kind together where they allow it.
        state_aggregate: bool = "false";
        /// Settings of Jinja for templates.
        jinja_env: Map = "{}";
        /// Settings of Jinja for state files.
        jinja_sls_env: Map = "{}";
        /// Strip space before a Jinja block.
        jinja_lstrip_blocks: bool = "false";
        /// Strip the line end after a Jinja block.
        jinja_trim_blocks: bool = "false";
        /// Digest of files, fingerprints and socket names: md5, sha1, sha224, sha256, sha384 or sha512.
        hash_type: String = "sha256";
    }

    Output {
        /// Colours. Empty: if the output is a terminal.
        color: Option<bool> = "null";
        /// Output of states: full, terse, mixed, changes or filter.
        state_output: String = "full";
        /// Show states that changed nothing.
        state_verbose: bool = "true";
        /// Outputter where none is asked for.
        output: Option<String> = "null";
        /// Level of messages on the console: quiet, critical, error, warning, info, profile, debug, trace, garbage or all.
        log_level: String = "warning";
        /// Level of messages in the log file. Empty: `log_level`.
        log_level_logfile: Option<String> = "null";
        /// Log file, or an address such as `udp://host:514` or `file:///dev/log`.
        log_file: String = "/var/log/{product}/master";
        /// Log file of `halite-key`.
        key_logfile: String = "/var/log/{product}/key";
        /// Form of messages on the console.
        log_fmt_console: String = "'[%(levelname)-8s] %(message)s'";
        /// Form of messages in the log file.
        log_fmt_logfile: String = "'%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s'";
        /// Form of the time on the console.
        log_datefmt: String = "'%H:%M:%S'";
        /// Form of the time in the log file.
        log_datefmt_logfile: String = "'%Y-%m-%d %H:%M:%S'";
    }
}

/// A pool of workers (`worker_pools`, `salt/config/worker_pools.py`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPool {
    /// Its name; part of the name of its socket.
    pub name: String,
    /// Its processes.
    pub worker_count: u32,
    /// Commands it answers; `*` is every command that no other pool names.
    pub commands: Vec<String>,
}

impl MasterConfig {
    /// Reads `dir/master` and what it includes.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &Path, flavour: Flavour) -> Result<Self, ConfigError> {
        let source = super::file::read(dir, Role::Master, flavour)?;
        Self::from_source(source)
    }

    /// The configuration that a file of these options in `dir` would give; no file is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let source = super::source::Source::of(options, dir, Role::Master, Flavour::of(dir))?;
        Self::from_source(source)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "master")?;
        finish::exactly_true(&mut source, &["open_mode", "auto_accept"]);
        finish::roots(&mut source);
        let origin = source.origin.clone();
        let mut c = Self::read(source)?;
        c.warnings
            .extend(finish::leftovers(&c.extra, MASTER_OPTIONS, &origin));
        let checks = finish::Checks::new(&origin);
        checks.hash_type(&mut c.hash_type)?;
        checks.signing("publish_signing_algorithm", &c.publish_signing_algorithm)?;
        checks.signing("signing_algorithm", &c.signing_algorithm)?;
        checks.positive("worker_threads", c.worker_threads.into())?;
        checks.positive("runner_processes", c.runner_processes.into())?;
        checks.positive("max_request_size", c.max_request_size)?;
        checks.positive("max_event_size", c.max_event_size)?;
        finish::levels(&mut c.log_level, &mut c.log_level_logfile, &mut c.warnings);
        if c.keep_jobs != 24 && c.keep_jobs_seconds == 86400 {
            c.keep_jobs_seconds = c.keep_jobs.saturating_mul(3600);
            let text = "the option 'keep_jobs' is an old name; set 'keep_jobs_seconds'";
            c.warnings.push(text.to_owned());
        }
        c.event_return.retain(|name| !name.is_empty());
        let unusable = super::returners::unusable(&c);
        c.warnings.extend(unusable);
        c.place();
        let pools = c.read_pools(&checks)?;
        let longest = pools.iter().map(|p| p.name.len() + "workers-.ipc".len());
        let longest = longest
            .max()
            .unwrap_or(0)
            .max("master_event_pull.ipc".len());
        paths::check_sockets(&c.sock_dir, &"x".repeat(longest))?;
        Ok(c)
    }

    /// Puts the paths below `root_dir` and fills the id (`salt/config/__init__.py apply_master_config`).
    fn place(&mut self) {
        self.root_dir = finish::root(&self.root_dir);
        self.sock_dir = paths::sock_dir(std::mem::take(&mut self.sock_dir), &self.cachedir);
        let root = self.root_dir.clone();
        for path in [
            &mut self.pki_dir,
            &mut self.cachedir,
            &mut self.pidfile,
            &mut self.sock_dir,
            &mut self.sqlite_queue_dir,
        ] {
            *path = below(&root, path);
        }
        let optional = [
            &mut self.autosign_file,
            &mut self.autoreject_file,
            &mut self.autosign_grains_dir,
        ];
        for path in optional.into_iter().flatten() {
            *path = below(&root, path);
        }
        for log in [&mut self.log_file, &mut self.key_logfile] {
            *log = log_below(&root, log);
        }
        if self.id.is_empty() {
            let cache = finish::id_cache(&self.conf_file, self.flavour, &root);
            self.id = super::id::cached(&cache).unwrap_or_else(super::id::generate) + "_master";
        }
    }

    /// Name of the file with the signature of the master's key: `master_pubkey_signature`, else
    /// the default of the series.
    pub fn signature_name(&self) -> String {
        match (&self.master_pubkey_signature, self.salt_series) {
            (Some(name), _) => name.clone(),
            (None, SaltSeries::S3008) => format!("{}_pubkey_signature", self.id),
            (None, SaltSeries::S3006 | SaltSeries::S3007) => "master_pubkey_signature".into(),
        }
    }

    /// Whether frames of the event bus have a length before them.
    pub fn bus_prefixed(&self) -> bool {
        finish::prefixed(self.event_bus_framing, self.salt_series)
    }

    /// The pools of workers in effect (`salt/config/worker_pools.py get_worker_pools_config`).
    pub fn pools(&self) -> Vec<WorkerPool> {
        // The pools were checked when the configuration was read.
        let origin = Default::default();
        self.read_pools(&finish::Checks::new(&origin))
            .unwrap_or_default()
    }

    fn read_pools(&self, checks: &finish::Checks) -> Result<Vec<WorkerPool>, ConfigError> {
        if !self.worker_pools_enabled || self.worker_pools.is_empty() {
            return Ok(vec![WorkerPool {
                name: "default".into(),
                worker_count: self.worker_threads,
                commands: vec!["*".into()],
            }]);
        }
        let bad = |expected: &str| {
            let found = Value::Map(self.worker_pools.clone());
            checks.bad("worker_pools", &found, expected)
        };
        let mut pools: Vec<WorkerPool> = Vec::new();
        for (name, pool) in self.worker_pools.iter() {
            let pool = read_pool(name, pool).ok_or_else(|| {
                bad("a map of pool names (without '/') to maps with a 'worker_count' from 1 and a list of 'commands'")
            })?;
            let taken = |c: &String| pools.iter().any(|p| p.commands.contains(c));
            if let Some(command) = pool.commands.iter().find(|c| taken(c)) {
                return Err(bad(&format!(
                    "pools without a common command ('{command}' is in two)"
                )));
            }
            pools.push(pool);
        }
        if !pools.iter().any(|p| p.commands.iter().any(|c| c == "*")) {
            return Err(bad("pools of which one has the command '*'"));
        }
        Ok(pools)
    }

    /// Every option in effect, what is no option here included.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        map.set("__role", "master");
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}

fn read_pool(name: &Value, pool: &Value) -> Option<WorkerPool> {
    let name = name.as_str()?;
    let pool = pool.as_map()?;
    let worker_count = u32::try_from(pool.int("worker_count")?).ok()?;
    let commands = pool.get("commands")?.as_array()?;
    let texts: Vec<String> = commands
        .iter()
        .map(|c| c.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    let named = !name.is_empty() && name != ".." && !name.contains(['/', '\\', '\0']);
    (named && worker_count > 0 && !texts.is_empty()).then(|| WorkerPool {
        name: name.to_owned(),
        worker_count,
        commands: texts,
    })
}
