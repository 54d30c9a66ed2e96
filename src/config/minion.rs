//! Options of the minion.

use super::kinds::{BusFraming, ExtPillars, LogFormat, Roots, SaltSeries};
use super::paths::{self, below, log_below};
use super::table::options;
use super::{ConfigError, Flavour, Role, finish};
use halite_wire::Map;
use std::path::{Path, PathBuf};

options! {
    /// Configuration of the minion and of the commands beside it.
    MinionConfig,
    /// Every option of the minion.
    MINION_OPTIONS;

    Network {
        /// Name of this minion. Empty: the full host name, written down in the file `minion_id`.
        id: String = "''";
        /// Write a generated id into the file `minion_id`, and use what stands there.
        minion_id_caching: bool = "true";
        /// Write a generated id in small letters.
        minion_id_lowercase: bool = "false";
        /// Domain to add to an id that does not end in it.
        append_domain: Option<String> = "null";
        /// Host name or address of the master, or a list of them; `host:port` is allowed.
        master: Vec<String> = "salt";
        /// Port of the master for requests.
        master_port: u16 = "4506";
        /// Port of the master for publications. The master says in its sign-in answer if it is another one.
        publish_port: u16 = "4505";
        /// What a list of masters means: `str` (all of them at once), `failover` (one of them, the next if it is lost),
        /// `distributed` (the same, and the id decides which comes first), `func` (`master` names a function of this
        /// minion, `module.function`, which gives the master or a list as of `str`) or `disable` (no master at all).
        master_type: String = "str";
        /// Seconds between checks whether the connection to the master is there; 0 is none.
        master_alive_interval: u64 = "0";
        /// With `failover`, return to the first master when it is there again.
        master_failback: bool = "false";
        /// Seconds between checks for that; 0 is `master_alive_interval`.
        master_failback_interval: u64 = "0";
        /// With `failover`, try the masters in an order by chance.
        random_master: bool = "false";
        /// Old name of `random_master`.
        master_shuffle: bool = "false";
        /// Passes through the list of masters before it counts as failed; -1 is no limit.
        master_tries: i32 = "-1";
        /// Use IPv6. Empty: decided by the address of the master.
        ipv6: Option<bool> = "null";
        /// Seconds between attempts to resolve the name of the master; 0 is a single attempt.
        retry_dns: u64 = "30";
        /// Attempts to resolve it after the first, until the minion ends; empty is no limit.
        retry_dns_count: Option<u32> = "null";
        /// Account that the process runs as.
        user: String = "root";
        /// Directory put in front of the paths below, except `file_roots`.
        root_dir: PathBuf = "/";
        /// File with the process id.
        pidfile: PathBuf = "/var/run/{product}-minion.pid";
        /// Directory of the local sockets.
        sock_dir: PathBuf = "/var/run/{product}/minion";
        /// Directory of the keys of this minion and its master.
        pki_dir: PathBuf = "/etc/{product}/pki/minion";
        /// Directory of cached files and running jobs.
        cachedir: PathBuf = "/var/cache/{product}/minion";
        /// Most seconds to wait before the first connection, chosen by chance.
        random_startup_delay: u64 = "0";
        /// Milliseconds before the first attempt to connect again.
        recon_default: u64 = "1000";
        /// Milliseconds by which that may grow.
        recon_max: u64 = "10000";
        /// Choose the wait by chance between `recon_default` and `recon_default` + `recon_max`.
        recon_randomize: bool = "true";
        /// Seconds that a request waits for its answer.
        request_channel_timeout: u64 = "60";
        /// Attempts per request.
        request_channel_tries: u32 = "3";
        /// Least seconds before a return is sent again.
        return_retry_timer: u64 = "5";
        /// Most seconds before a return is sent again.
        return_retry_timer_max: u64 = "10";
        /// Attempts to send a return.
        return_retry_tries: u32 = "3";
        /// Minutes between pings of the master; 0 is none.
        ping_interval: u64 = "0";
        /// Subscribe only to publications for this minion. The master must have this set too.
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
        /// Bytes of the largest event.
        max_event_size: u64 = "1048576";
        /// Release of Salt whose tools share this host: 3006, 3007 or 3008.
        salt_series: SaltSeries = "3008";
        /// Frames of the event bus: `auto` (what the tools of `salt_series` read), `bare` or `prefixed`.
        event_bus_framing: BusFraming = "auto";
        /// Events that may wait for one slow listener; further ones are dropped and counted.
        event_queue_limit: u32 = "10000";
        /// Files read after this one, in the order of their names; a later value replaces an earlier one.
        default_include: String = "minion.d/*.conf";
        /// Further files or patterns to read.
        include: Vec<String> = "[]";
        /// Port of masters that speak sysinspect's protocol, for `halite-sysinspect-minion`; their hosts are those of `master`.
        sysinspect_port: u16 = "4200";
        /// Machine id at such masters. Empty: the content of `/etc/machine-id`, else one made once and kept in `pki_dir`.
        sysinspect_id: String = "''";
        /// How it speaks: `seed` (the protocol as described) or `e3` (the programs of 2025-12 to 2026-03).
        sysinspect_dialect: String = "seed";
        /// Fingerprint of the master's key that may be accepted (SHA-256, hexadecimal).
        sysinspect_fingerprint: String = "''";
        /// Functions that such masters may run here, as globs. The protocol is neither encrypted nor signed, so that
        /// whoever is in the network's way can be the master: allow what may be run by anybody.
        sysinspect_functions: Vec<String> = "['test.*', grains.get, grains.item, grains.items, grains.ls, sys.list_functions]";
    }

    Security {
        /// Bits of new RSA keys.
        keysize: u32 = "2048";
        /// Seconds to wait for the answer to a sign-in.
        auth_timeout: u64 = "5";
        /// Attempts to sign in that may time out.
        auth_tries: u32 = "7";
        /// Wait `acceptance_wait_time` after attempts without answer, as for a key that is not accepted yet. With
        /// `ping_interval`, a ping without answer makes a new sign-in.
        auth_safemode: bool = "false";
        /// Further rounds of sign-in after the first failed; 0 is none.
        auth_retries: u32 = "0";
        /// Seconds between attempts while the key waits to be accepted.
        acceptance_wait_time: u64 = "10";
        /// Most seconds between them; the wait grows up to it. 0: the wait stays the same.
        acceptance_wait_time_max: u64 = "0";
        /// Go on trying after the master rejected the key.
        rejected_retry: bool = "false";
        /// Most seconds to wait, chosen by chance, before a new sign-in after the master was lost or does not know the keys any more;
        /// two at most where a job waits for it.
        random_reauth_delay: u64 = "10";
        /// Check the signature of publications.
        sign_pub_messages: bool = "false";
        /// Sign returns.
        minion_sign_messages: bool = "false";
        /// Check the signature of the public key of the master.
        verify_master_pubkey_sign: bool = "false";
        /// Name of the key in `pki_dir` that checks it, without `.pub`.
        master_sign_key_name: String = "master_sign";
        /// Check it at every sign-in, not only for a new key.
        always_verify_signature: bool = "false";
        /// Fingerprint that the public key of the master must have.
        master_finger: String = "''";
        /// How secrets are encrypted with RSA: `OAEP-SHA1` or `OAEP-SHA224`.
        encryption_algorithm: String = "OAEP-SHA1";
        /// How messages are signed: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        signing_algorithm: String = "PKCS1v15-SHA1";
        /// Grains to send with the sign-in, by which a master may accept the key.
        autosign_grains: Vec<String> = "[]";
        /// Accept keys and key directories that the group may read.
        permissive_pki_access: bool = "false";
        /// Modules, or functions as `module.function`, that may not be called.
        disable_modules: Vec<String> = "[]";
        /// Modules that alone may be called; empty: all.
        whitelist_modules: Vec<String> = "[]";
    }

    Jobs {
        /// Fire `minion_start` beside `salt/minion/<id>/start`.
        enable_legacy_startup_events: bool = "true";
        /// Grains that the start event carries.
        start_event_grains: Vec<String> = "[]";
        /// Grains set by hand.
        grains: Map = "{}";
        /// Jobs that may run at once; -1 is no limit.
        process_count_max: i32 = "-1";
        /// Keep results of jobs in `cachedir/minion_jobs`, for `saltutil.find_cached_job`.
        cache_jobs: bool = "false";
        /// Job ids remembered so that no job runs twice.
        minion_jid_queue_hwm: u32 = "100";
        /// Send results to the master.
        pub_ret: bool = "true";
        /// Returners that get the result of every job of a master, besides those that the job names: `pgjsonb`,
        /// `postgres`, `redis`, `sqlite3`, `rawfile_json`, `syslog` or `local`.
        returners @ "return": Vec<String> = "[]";
        /// Returners that are not to be had on this minion.
        disable_returners: Vec<String> = "[]";
        /// Seconds for which Redis keeps what the returner `redis` writes; 0 is for ever.
        keep_jobs_seconds: u64 = "86400";
        /// Jobs that this minion gives itself, by name, each with its function and times.
        schedule: Map = "{}";
        /// Returners that get the results of all of them, besides those that a job names.
        schedule_returner: Vec<String> = "[]";
        /// Run them before the first connection to a master too.
        scheduler_before_connect: bool = "false";
        /// What this minion looks at and tells by events: beacons by name, each with a list of maps.
        beacons: Map = "{}";
        /// Let them look before the first connection to a master too.
        beacons_before_connect: bool = "false";
        /// Seconds between two looks of a beacon without an `interval`.
        loop_interval: u64 = "1";
        /// Minutes between looks at the grains; the pillar is fetched anew if they changed. 0 is none.
        grains_refresh_every: i64 = "0";
        /// States to apply at the start: `highstate`, `sls` (see `sls_list`) or `top` (see `top_file`). Empty: none.
        startup_states: String = "''";
        /// The states of `startup_states: sls`.
        sls_list: Vec<String> = "[]";
        /// The top file of `startup_states: top`.
        top_file: String = "''";
        /// Functions whose values this minion leaves in the mine: names, each with its arguments.
        mine_functions: Map = "{}";
        /// Bring them to the master at the start and every `mine_interval`.
        mine_enabled: bool = "true";
        /// Minutes between these updates.
        mine_interval: u64 = "60";
        /// Send the result of such an update to the master.
        mine_return_job: bool = "false";
    }

    Files {
        /// Where files come from: `remote` (the master) or `local`.
        file_client: String = "remote";
        /// Directories of files for `local`, per environment.
        file_roots: Roots = "{base: [/srv/salt, /srv/spm/salt]}";
        /// Directory of the modules that `saltutil.sync_*` brings, below it `modules`, `grains` and so on.
        extension_modules: PathBuf = "/var/cache/{product}/minion/extmods";
        /// Further directories of executables that are modules.
        module_dirs: Vec<String> = "[]";
        /// Further directories of executables that print grains.
        grains_dirs: Vec<String> = "[]";
        /// A Salt in Python that runs functions which this minion lacks: its virtual environment, or its Python.
        legacy_salt: String = "''";
        /// Custom modules to copy, by kind. Empty: all.
        extmod_whitelist: Map = "{}";
        /// Custom modules not to copy, by kind.
        extmod_blacklist: Map = "{}";
        /// Remove copies of custom modules that the file server does not have any more.
        clean_dynamic_modules: bool = "true";
        /// For `file_client: local`: regular expressions of paths that are not files of the file server.
        file_ignore_regex: Vec<String> = "[]";
        /// The same as globs.
        file_ignore_glob: Vec<String> = "[]";
        /// Environment for states and files. Empty: all of the top file.
        saltenv: Option<String> = "null";
        /// Environment for the pillar. Empty: all of the top file.
        pillarenv: Option<String> = "null";
        /// Directories of the pillar, per environment; the environment `__env__` stands for any other.
        pillar_roots: Roots = "{base: [/srv/pillar, /srv/spm/pillar]}";
        /// Take the environment of the pillar from the minion's `saltenv`.
        pillarenv_from_saltenv: bool = "false";
        /// Say only in the log why a pillar file could not be rendered.
        pillar_safe_render_error: bool = "true";
        /// How pillar data of several sources are merged: `smart`, `aggregate`, `recurse`, `overwrite`, `list` or `none`.
        pillar_source_merging_strategy: String = "smart";
        /// Join lists of several sources instead of taking the last.
        pillar_merge_lists: bool = "false";
        /// Let included pillar files win over the file that includes them.
        pillar_includes_override_sls: bool = "false";
        /// External pillars: a list of maps of one name to its arguments.
        ext_pillar: ExtPillars = "[]";
        /// Ask the external pillars before the files of `pillar_roots` are rendered.
        ext_pillar_first: bool = "false";
        /// External pillars that a minion may ask for by itself. Those of the default do not exist here.
        on_demand_ext_pillar: Vec<String> = "[libvirt, virtkey]";
        /// How state and pillar files are rendered.
        renderer: String = "jinja|yaml";
        /// With `file_client: local`: take jobs and the pillar from the master all the same.
        use_master_when_local: bool = "false";
        /// Digest of files, fingerprints and socket names: md5, sha1, sha224, sha256, sha384 or sha512.
        hash_type: String = "sha256";
        /// Bytes of a file fetched at once.
        file_buffer_size: u64 = "262144";
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
        /// Log file. Empty: none.
        log_file: String = "/var/log/{product}/minion";
        /// Form of messages on the console.
        log_fmt_console: String = "'[%(levelname)-8s] %(message)s'";
        /// Form of messages in the log file.
        log_fmt_logfile: String = "'%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s'";
        /// Form of the time on the console.
        log_datefmt: String = "'%H:%M:%S'";
        /// Form of the time in the log file.
        log_datefmt_logfile: String = "'%Y-%m-%d %H:%M:%S'";
        /// Form of `%(jid)s` in `log_fmt_console` and `log_fmt_logfile`; nothing stands there where no job is known.
        log_fmt_jid: String = "'[JID: %(jid)s]'";
        /// Form of lines on the console and, unless `log_format_logfile` says otherwise, in the log file: `salt` (as
        /// `log_fmt_console` and `log_fmt_logfile` have it) or `json` (an object on each line, with fields). Commands at a
        /// terminal write `salt`.
        log_format: LogFormat = "salt";
        /// Form of lines in the log file: `salt` or `json`. Empty: `log_format`.
        log_format_logfile: Option<LogFormat> = "null";
        /// Where the console is systemd's journal, hand messages to it with their fields instead of as lines.
        log_journald: bool = "true";
        /// Levels of parts of the program by the beginning of their name, as `halite.master: error`; `salt` at the beginning of a
        /// name means `halite`. They hold back messages that the other levels let through. Of libraries, whose names
        /// are others, only warnings and errors are shown unless they are named here.
        log_granular_levels: Map = "{}";
    }
}

/// Longest name of a socket of the minion.
const LONGEST_SOCKET: &str = "minion_event_0123456789_pull.ipc";

impl MinionConfig {
    /// Reads `dir/minion` and what it includes.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &Path, flavour: Flavour) -> Result<Self, ConfigError> {
        let source = super::file::read(dir, Role::Minion, flavour)?;
        Self::from_source(source)
    }

    /// The configuration that a file of these options in `dir` would give; no file is read but `minion_id`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let source = super::source::Source::of(options, dir, Role::Minion, Flavour::of(dir))?;
        Self::from_source(source)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "minion")?;
        finish::roots(&mut source, "file_roots", "/srv/salt");
        finish::roots(&mut source, "pillar_roots", "/srv/pillar");
        let origin = source.origin.clone();
        let mut c = Self::read(source)?;
        c.warnings
            .extend(finish::leftovers(&c.extra, Role::Minion, &origin));
        let checks = finish::Checks::new(&origin);
        checks.hash_type(&mut c.hash_type)?;
        checks.signing("signing_algorithm", &c.signing_algorithm)?;
        checks.one_of(
            "encryption_algorithm",
            &c.encryption_algorithm,
            &["OAEP-SHA1", "OAEP-SHA224"],
        )?;
        checks.one_of("file_client", &c.file_client, &["remote", "local"])?;
        checks.one_of(
            "master_type",
            &c.master_type,
            &["str", "failover", "distributed", "func", "disable"],
        )?;
        checks.positive("max_event_size", c.max_event_size)?;
        finish::levels(&mut c.log_level, &mut c.log_level_logfile, &mut c.warnings);
        finish::granular_levels(&mut c.log_granular_levels, &mut c.warnings);
        c.place();
        paths::check_sockets(&c.sock_dir, LONGEST_SOCKET)?;
        Ok(c)
    }

    /// Puts the paths below `root_dir` and fills the id (`salt/config/__init__.py apply_minion_config`).
    fn place(&mut self) {
        self.root_dir = finish::root(&self.root_dir);
        self.sock_dir = paths::sock_dir(std::mem::take(&mut self.sock_dir), &self.cachedir);
        let root = self.root_dir.clone();
        if self.extension_modules.as_os_str().is_empty() {
            self.extension_modules = paths::minion::cache::extmods(&self.cachedir);
        }
        for path in [
            &mut self.pki_dir,
            &mut self.cachedir,
            &mut self.extension_modules,
            &mut self.pidfile,
            &mut self.sock_dir,
        ] {
            *path = below(&root, path);
        }
        self.log_file = log_below(&root, &self.log_file);
        if self.id.is_empty() {
            self.id = self.guess_id();
        }
        if let Some(domain) = &self.append_domain
            && !self.id.ends_with(domain.as_str())
            && !self.id.ends_with('.')
            && self.id.parse::<std::net::Ipv4Addr>().is_err()
        {
            self.id = format!("{}.{domain}", self.id);
        }
    }

    fn guess_id(&self) -> String {
        let kept = if self.minion_id_caching {
            super::id::cached(&self.id_file())
        } else {
            None
        };
        kept.unwrap_or_else(|| {
            let id = super::id::generate();
            if self.minion_id_lowercase {
                id.to_lowercase()
            } else {
                id
            }
        })
    }

    /// The file that keeps a generated id: `minion_id` in the configuration directory, with
    /// [`Flavour::Salt`] in `/etc/salt` below `root_dir` as stock Salt has it.
    pub fn id_file(&self) -> PathBuf {
        finish::id_cache(&self.conf_file, self.flavour, &self.root_dir)
    }

    /// Writes a generated id down for later starts; the minion does this once at its start.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_id(&self) -> std::io::Result<()> {
        let file = self.id_file();
        if !self.minion_id_caching || super::id::cached(&file).is_some() {
            return Ok(());
        }
        super::id::cache(&file, &self.id)
    }

    /// Whether frames of the event bus have a length before them.
    pub fn bus_prefixed(&self) -> bool {
        finish::prefixed(self.event_bus_framing, self.salt_series)
    }

    /// Every option in effect, what is no option here included.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        if let [one] = self.master.as_slice() {
            map.set("master", one.as_str());
        }
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        map.set("__role", "minion");
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}
