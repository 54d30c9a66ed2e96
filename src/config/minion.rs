//! Options of the minion.

use super::installed::InstalledSalt;
use super::kinds::{BusFraming, Entries, ExtPillars, LogFormat, Roots, SaltSeries, Switch};
use super::paths::{self, below, log_below};
use super::{ConfigError, Flavour, Role, finish, table::options, tls::Ssl};
use halite_wire::{KeyType, Map, Transport};
use std::path::{Path, PathBuf};

options! {
    /// Configuration of the minion and of its commands.
    MinionConfig,
    /// Every option of the minion.
    MINION_OPTIONS;

    Network {
        /// Id of this minion. Empty: the full host name, stored in the file `minion_id`.
        id: String = "''";
        /// Store a generated id in the file `minion_id`, and use the stored one at later starts.
        minion_id_caching: bool = "true";
        /// Lowercase a generated id.
        minion_id_lowercase: bool = "false";
        /// Domain appended to an id that does not end in it.
        append_domain: Option<String> = "null";
        /// Host name or address of the master, or a list of them; `host:port` is allowed.
        master: Vec<String> = "salt";
        /// Request port of the master.
        master_port: u16 = "4506";
        /// Publication port of the master. The master's sign-in answer overrides it.
        publish_port: u16 = "4505";
        /// How to use a list of masters: `str` (all of them at once), `failover` (one of them; the next if it is lost),
        /// `distributed` (the same, starting with one chosen by the id), `func` (`master` names a function of this
        /// minion, `module.function`, that returns the master or a list as for `str`) or `disable` (no master at all).
        master_type: String = "str";
        /// Seconds between checks of the connection to the master; 0: none.
        master_alive_interval: u64 = "0";
        /// With `failover`, return to the first master when it is back.
        master_failback: bool = "false";
        /// Seconds between checks whether it is back; 0: `master_alive_interval`.
        master_failback_interval: u64 = "0";
        /// With `failover`, try the masters in random order.
        random_master: bool = "false";
        /// Old name of `random_master`.
        master_shuffle: bool = "false";
        /// Passes through the list of masters before giving up; -1: no limit.
        master_tries: i32 = "-1";
        /// Use IPv6. Empty: depends on the master's address.
        ipv6: Option<bool> = "null";
        /// Seconds between attempts to resolve the master's name; 0: try once.
        retry_dns: u64 = "30";
        /// Further attempts to resolve it before the minion exits; empty: no limit.
        retry_dns_count: Option<u32> = "null";
        /// Account that the process runs as.
        user: String = "root";
        /// Directory prepended to the paths below, except `file_roots` and `pillar_roots`.
        root_dir: PathBuf = "/";
        /// PID file.
        pidfile: PathBuf = "/var/run/{product}-minion.pid";
        /// Directory of the local sockets.
        sock_dir: PathBuf = "/var/run/{product}/minion";
        /// Directory for the keys of this minion and its master.
        pki_dir: PathBuf = "/etc/{product}/pki/minion";
        /// Directory for cached files and running jobs.
        cachedir: PathBuf = "/var/cache/{product}/minion";
        /// Upper limit in seconds of a random delay before the first connection.
        random_startup_delay: u64 = "0";
        /// Protocol of the master's ports: `zeromq`, `tcp` or `ws` (WebSocket).
        transport: Transport = "zeromq";
        /// TLS to the master with `tcp` and `ws`: `true`, or a map of `ca_certs` (empty: the system's), `certfile` and `keyfile`;
        /// also `cert_reqs`, `ssl_version`, `ciphers`, `verify_locations`, `verify_flags`. The master's certificate must be
        /// valid for its name or address in `master`.
        ssl: Ssl = "null";
        /// Seconds before a lost connection of `tcp` or `ws` is made again.
        tcp_reconnect_backoff: u64 = "1";
        /// Milliseconds before the first attempt to reconnect.
        recon_default: u64 = "1000";
        /// Milliseconds by which that delay may grow.
        recon_max: u64 = "10000";
        /// Choose the delay at random between `recon_default` and `recon_default` + `recon_max`.
        recon_randomize: bool = "true";
        /// Seconds to wait for the answer to a request.
        request_channel_timeout: u64 = "60";
        /// Attempts per request.
        request_channel_tries: u32 = "3";
        /// Minimum seconds before a return is sent again.
        return_retry_timer: u64 = "5";
        /// Maximum seconds before a return is sent again.
        return_retry_timer_max: u64 = "10";
        /// Attempts to send a return.
        return_retry_tries: u32 = "3";
        /// Minutes between pings of the master; 0: none.
        ping_interval: u64 = "0";
        /// Subscribe only to publications for this minion. The master must set this too.
        zmq_filtering: bool = "false";
        /// Use TCP keepalive probes.
        tcp_keepalive: bool = "true";
        /// Idle seconds before the first probe; -1: the system's default.
        tcp_keepalive_idle: i32 = "300";
        /// Lost probes after which a connection is closed; -1: the system's default.
        tcp_keepalive_cnt: i32 = "-1";
        /// Seconds between probes; -1: the system's default.
        tcp_keepalive_intvl: i32 = "-1";
        /// Milliseconds between ZeroMQ heartbeats; 0 turns them off.
        zmq_heartbeat_ivl: i32 = "10000";
        /// Milliseconds without a heartbeat after which a connection is closed.
        zmq_heartbeat_timeout: i32 = "30000";
        /// Seconds to wait for a connection to a web server.
        http_connect_timeout: f64 = "20.0";
        /// Seconds that a request to a web server may take.
        http_request_timeout: f64 = "3600.0";
        /// Most bytes of an answer of a web server.
        http_max_body: u64 = "107374182400";
        /// HTTP proxy for requests to web servers; needs `proxy_port`.
        proxy_host: String = "''";
        /// Port of the HTTP proxy.
        proxy_port: u16 = "0";
        /// User name for the HTTP proxy.
        proxy_username: String = "''";
        /// Password for the HTTP proxy.
        proxy_password: String = "''";
        /// Hosts that are asked without the proxy.
        no_proxy: Vec<String> = "[]";
        /// Largest event, in bytes; 16 MiB at least.
        max_event_size: u64 = "1048576";
        /// Release of Salt whose tools are used on this host: 3006, 3007 or 3008. Not set: that of the installed Salt.
        salt_series: SaltSeries = "3008";
        /// Framing of the event bus: `auto` (what the tools of `salt_series` read), `bare` or `prefixed`.
        event_bus_framing: BusFraming = "auto";
        /// Events that may be queued for one slow listener; further ones are dropped and counted. 0: any number.
        event_queue_limit: u32 = "10000";
        /// Files read after this one, in the order of their names; later values replace earlier ones.
        default_include: String = "minion.d/*.conf";
        /// Further files or patterns of files to read.
        include: Vec<String> = "[]";
        /// Port of sysinspect masters, for `halite-sysinspect-minion`; their hosts are those of `master`.
        sysinspect_port: u16 = "4200";
        /// Machine id sent to sysinspect masters. Empty: that of `/etc/machine-id`, else one made once and kept in `pki_dir`.
        sysinspect_id: String = "''";
        /// Protocol dialect: `seed` (as described) or `e3` (the programs of 2025-12 to 2026-03).
        sysinspect_dialect: String = "seed";
        /// Fingerprint of the only master key to accept (SHA-256, hexadecimal).
        sysinspect_fingerprint: String = "''";
        /// Globs of the functions that sysinspect masters may run. Anyone on the network path can act as one: allow what anybody may run.
        sysinspect_functions: Vec<String> = "['test.*', grains.get, grains.item, grains.items, grains.ls, sys.list_functions]";
    }

    Security {
        /// Size of new RSA keys, in bits.
        keysize: u32 = "2048";
        /// Type of a new key of the minion: `rsa`, or `ed25519` for halite's masters alone.
        key_type: KeyType = "rsa";
        /// Seconds to wait for the answer to a sign-in.
        auth_timeout: u64 = "5";
        /// Sign-in attempts that may time out.
        auth_tries: u32 = "7";
        /// After sign-ins without an answer, wait `acceptance_wait_time`, as for a key that is not accepted yet. With
        /// `ping_interval`, a ping without an answer triggers a new sign-in.
        auth_safemode: bool = "false";
        /// Further rounds of sign-in after the first failed; 0: none.
        auth_retries: u32 = "0";
        /// Seconds between sign-ins while the key waits to be accepted.
        acceptance_wait_time: u64 = "10";
        /// Maximum seconds between them; the wait grows up to it. 0: the wait stays the same.
        acceptance_wait_time_max: u64 = "0";
        /// Keep trying after the master rejected the key.
        rejected_retry: bool = "false";
        /// Upper limit in seconds of a random delay before a new sign-in when the master was lost or no longer knows
        /// our keys; at most two seconds if a job waits for it.
        random_reauth_delay: u64 = "10";
        /// Verify signatures of publications.
        sign_pub_messages: bool = "false";
        /// Sign returns.
        minion_sign_messages: bool = "false";
        /// Verify the signature of the master's public key.
        verify_master_pubkey_sign: bool = "false";
        /// Name of the key in `pki_dir` used for that, without `.pub`.
        master_sign_key_name: String = "master_sign";
        /// Verify it at every sign-in, not only for a new key.
        always_verify_signature: bool = "false";
        /// Required fingerprint of the master's public key.
        master_finger: String = "''";
        /// RSA encryption of secrets: `OAEP-SHA1` or `OAEP-SHA224`.
        encryption_algorithm: String = "OAEP-SHA1";
        /// Signature algorithm for messages: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        signing_algorithm: String = "PKCS1v15-SHA1";
        /// How to sign in: `auto` with halite's handshake and AES-256-GCM where the master is halite's, else as Salt does, but never again as Salt at a master that once had it; `noise` with halite's only; `salt` as Salt does.
        handshake: String = "auto";
        /// Grains sent with the sign-in; the master may accept the key by them.
        autosign_grains: Vec<String> = "[]";
        /// Allow keys and key directories to be readable by the group.
        permissive_pki_access: bool = "false";
        /// Modules, or functions as `module.function`, that must not be called.
        disable_modules: Vec<String> = "[]";
        /// The only modules for jobs, templates, conditions of states and `module.run`; empty: all.
        whitelist_modules: Vec<String> = "[]";
        /// The only state modules; empty: all.
        whitelist_state_modules: Vec<String> = "[]";
        /// Merge maps that several files and modules of grains have under one name, instead of taking the last one.
        grains_deep_merge: bool = "false";
    }

    Jobs {
        /// Fire `minion_start` in addition to `salt/minion/<id>/start`.
        enable_legacy_startup_events: bool = "true";
        /// Grains included in the start event.
        start_event_grains: Vec<String> = "[]";
        /// Static grains.
        grains: Map = "{}";
        /// Maximum number of jobs that run at once; -1: no limit.
        process_count_max: i32 = "-1";
        /// Store job results in `cachedir/minion_jobs`, for `saltutil.find_cached_job`.
        cache_jobs: bool = "false";
        /// Number of job ids remembered so that no job runs twice.
        minion_jid_queue_hwm: u32 = "100";
        /// Send results to the master.
        pub_ret: bool = "true";
        /// Returners that get the result of every job of a master, besides those the job names: `pgjsonb`, `postgres`,
        /// `redis`, `sqlite3`, `rawfile_json`, `syslog` or `local`.
        returners @ "return": Vec<String> = "[]";
        /// Returners that are disabled on this minion.
        disable_returners: Vec<String> = "[]";
        /// Seconds for which Redis keeps what the returner `redis` writes; 0: forever.
        keep_jobs_seconds: u64 = "86400";
        /// Scheduled jobs of this minion, by name, each with its function and times.
        schedule: Map = "{}";
        /// Returners that get the results of all scheduled jobs, besides those a job names.
        schedule_returner: Vec<String> = "[]";
        /// Run scheduled jobs before the first connection to a master too.
        scheduler_before_connect: bool = "false";
        /// Beacons by name, each with a list of maps. They watch this host and fire events.
        beacons: Map = "{}";
        /// Run beacons before the first connection to a master too.
        beacons_before_connect: bool = "false";
        /// Seconds between runs of a beacon without an `interval`.
        loop_interval: u64 = "1";
        /// Minutes between checks of the grains; if they changed, the pillar is fetched again. 0: none.
        grains_refresh_every: i64 = "0";
        /// What runs functions: `direct_call`, `splay`, `sudo`, or executors in Python; the first that does so counts.
        module_executors: Vec<String> = "[direct_call]";
        /// Account that runs functions of jobs, by `sudo -n -u ACCOUNT halite-call`.
        sudo_user: String = "''";
        /// Settings of executors, such as `splaytime`.
        executor_opts: Map = "{}";
        /// Return the results of several functions in one job by their position, not by name.
        multifunc_ordered: bool = "false";
        /// Run commands without a shell unless a call asks for one.
        cmd_safe: bool = "true";
        /// Command of `minion.restart`. Empty: that of the service.
        minion_restart_command: Vec<String> = "[]";
        /// States only report what they would do, unless they are called with `test=False`.
        test: bool = "false";
        /// Stop at the first state that fails.
        failhard: bool = "false";
        /// Name of the top file, with `file_client: local`; otherwise the master's is used.
        state_top: String = "top.sls";
        /// Environment of the top file, as `state_top`.
        state_top_saltenv: Option<String> = "null";
        /// How the top files of several environments are combined: `merge`, `same` or `merge_all`; as `state_top`.
        top_file_merging_strategy: String = "merge";
        /// Order of the environments of top files, as `state_top`.
        env_order: Vec<String> = "[]";
        /// Environment whose top file stands in for a missing one, for `top_file_merging_strategy: same`; as `state_top`.
        default_top: String = "base";
        /// Sources of states besides the top file, as on the master, with `file_client: local`.
        master_tops: Map = "{}";
        /// Run states in the order of their files, as `state_top`.
        state_auto_order: bool = "true";
        /// Fire an event per state.
        state_events: bool = "false";
        /// Run states of one kind together where they allow it; a list names the kinds.
        state_aggregate: Switch = "false";
        /// Wait for the run of states that is active, instead of refusing another. A number: at most that many wait.
        state_queue: Switch = "false";
        /// Most states that run at once with `parallel: True`; 0 is no limit.
        state_max_parallel: u32 = "0";
        /// Requisites that are ignored, such as `watch`.
        disabled_requisites: Vec<String> = "[]";
        /// Refuse another `saltenv` than that of the configuration.
        lock_saltenv: bool = "false";
        /// States to apply at startup: `highstate`, `sls` (see `sls_list`) or `top` (see `top_file`). Empty: none.
        startup_states: String = "''";
        /// States for `startup_states: sls`.
        sls_list: Vec<String> = "[]";
        /// Top file for `startup_states: top`.
        top_file: String = "''";
        /// Functions whose results go to the mine: names, each with its arguments.
        mine_functions: Map = "{}";
        /// Send them to the master at startup and every `mine_interval`.
        mine_enabled: bool = "true";
        /// Minutes between these updates.
        mine_interval: u64 = "60";
        /// Send the result of each mine update to the master.
        mine_return_job: bool = "false";
    }

    Files {
        /// Source of files: `remote` (the master) or `local`.
        file_client: String = "remote";
        /// Directories of files for `local`, per environment.
        file_roots: Roots = "{base: [/srv/salt, /srv/spm/salt]}";
        /// Directory for modules synced by `saltutil.sync_*`, with the subdirectories `modules`, `grains` and so on.
        extension_modules: PathBuf = "/var/cache/{product}/minion/extmods";
        /// Further directories with modules of users, and with such directories as `returners` and `beacons`.
        module_dirs: Vec<String> = "[]";
        /// Further directories with executables that print grains.
        grains_dirs: Vec<String> = "[]";
        /// A Python Salt that runs functions this minion lacks: its virtual environment, or its Python interpreter.
        legacy_salt: String = "''";
        /// The Python interpreter for Python files of users. Empty: the first `python3` in `PATH`.
        python: String = "''";
        /// Further directories with state modules in Python.
        states_dirs: Vec<String> = "[]";
        /// Further directories with utility modules in Python.
        utils_dirs: Vec<String> = "[]";
        /// Further directories with renderers in Python.
        render_dirs: Vec<String> = "[]";
        /// Further directories with returners in Python.
        returner_dirs: Vec<String> = "[]";
        /// Further directories with beacons in Python.
        beacons_dirs: Vec<String> = "[]";
        /// Further directories with matchers in Python.
        matchers_dirs: Vec<String> = "[]";
        /// Further directories with executors in Python.
        executor_dirs: Vec<String> = "[]";
        /// Further directories with drivers of `sdb` in Python.
        sdb_dirs: Vec<String> = "[]";
        /// Further directories with engines in Python.
        engines_dirs: Vec<String> = "[]";
        /// Engines in Python that run as long as the minion: names, or maps of a name to the arguments of its `start`.
        engines: Entries = "[]";
        /// Further directories with outputters in Python.
        outputter_dirs: Vec<String> = "[]";
        /// Python files of states that are not used.
        disable_states: Vec<String> = "[]";
        /// Python files of grains that are not used.
        disable_grains: Vec<String> = "[]";
        /// Python files of utilities that are not used.
        disable_utils: Vec<String> = "[]";
        /// Python files of renderers that are not used.
        disable_renders: Vec<String> = "[]";
        /// Python files of beacons that are not used.
        disable_beacons: Vec<String> = "[]";
        /// Custom modules to copy, by kind. Empty: all.
        extmod_whitelist: Map = "{}";
        /// Custom modules not to copy, by kind.
        extmod_blacklist: Map = "{}";
        /// Remove copies of custom modules that the file server no longer has.
        clean_dynamic_modules: bool = "true";
        /// With `file_client: local`: regular expressions; the file server ignores matching paths.
        file_ignore_regex: Vec<String> = "[]";
        /// The same as globs.
        file_ignore_glob: Vec<String> = "[]";
        /// Environment for states and files. Empty: all in the top file.
        saltenv: Option<String> = "null";
        /// Environment for the pillar. Empty: all in the top file.
        pillarenv: Option<String> = "null";
        /// Directories of the pillar, per environment; `__env__` stands for any other environment.
        pillar_roots: Roots = "{base: [/srv/pillar, /srv/spm/pillar]}";
        /// Use the minion's `saltenv` as pillar environment.
        pillarenv_from_saltenv: bool = "false";
        /// Log the reason why a pillar file could not be rendered, but do not show it in the pillar.
        pillar_safe_render_error: bool = "true";
        /// How pillar data of several sources are merged: `smart`, `aggregate`, `recurse`, `overwrite`, `list` or `none`.
        pillar_source_merging_strategy: String = "smart";
        /// Append lists of several sources instead of keeping only the last.
        pillar_merge_lists: bool = "false";
        /// Let included pillar files override the file that includes them.
        pillar_includes_override_sls: bool = "false";
        /// External pillars: a list of maps of a name to its arguments.
        ext_pillar: ExtPillars = "[]";
        /// Run the external pillars before rendering the files of `pillar_roots`.
        ext_pillar_first: bool = "false";
        /// External pillars that minions may request. Those of the default do not exist here.
        on_demand_ext_pillar: Vec<String> = "[libvirt, virtkey]";
        /// Renderers for state and pillar files.
        renderer: String = "jinja|yaml";
        /// Renderers that files may not use.
        renderer_blacklist: Vec<String> = "[]";
        /// The only renderers that files may use. Empty: all.
        renderer_whitelist: Vec<String> = "[]";
        /// Jinja settings for templates, with `file_client: local`; otherwise the master's are used.
        jinja_env: Map = "{}";
        /// Jinja settings for state files, as `jinja_env`.
        jinja_sls_env: Map = "{}";
        /// Strip space before a Jinja block, as `jinja_env`.
        jinja_lstrip_blocks: bool = "false";
        /// Strip the newline after a Jinja block, as `jinja_env`.
        jinja_trim_blocks: bool = "false";
        /// Show pillar values in `pillar.items` as asterisks, unless it is called with `unmask=True`.
        pillar_mask_output: bool = "true";
        /// Backup of files that states and `file` functions replace: `minion`, or empty for none.
        backup_mode: String = "''";
        /// Names of options that external pillars of the master get, as `extra_minion_data`.
        pass_to_ext_pillars: Vec<String> = "[]";
        /// With `file_client: local`: still take jobs and the pillar from the master.
        use_master_when_local: bool = "false";
        /// Digest of files, fingerprints and socket names: md5, sha1, sha224, sha256, sha384 or sha512.
        hash_type: String = "sha256";
        /// Chunk size in bytes for files fetched from the master.
        file_buffer_size: u64 = "262144";
    }

    Output {
        /// Use colours. Empty: if the output is a terminal.
        color: Option<bool> = "null";
        /// Output format of states: full, terse, mixed, changes or filter.
        state_output: String = "full";
        /// Show states that changed nothing.
        state_verbose: bool = "true";
        /// Show only states that changed something or failed.
        state_output_diff: bool = "false";
        /// Show when each state started and how long it took.
        state_output_profile: bool = "true";
        /// Show the share of states that succeeded in the summary.
        state_output_pct: bool = "false";
        /// Results that `state_output: filter` leaves out, such as `True`.
        state_output_exclude: Vec<String> = "[]";
        /// Results that `state_output: filter` shows on one line.
        state_output_terse: Vec<String> = "[]";
        /// Show states with the same id and result as one.
        state_compress_ids: bool = "false";
        /// Show the lines of `state_output: terse` in columns.
        state_tabular: bool = "false";
        /// Default outputter.
        output: Option<String> = "null";
        /// Log level on the console: quiet, critical, error, warning, info, profile, debug, trace, garbage or all.
        log_level: String = "warning";
        /// Log level in the log file. Empty: `log_level`.
        log_level_logfile: Option<String> = "null";
        /// Log file, or a syslog daemon: `udp://HOST[:PORT]`, `file:///dev/log`. Empty: none.
        log_file: String = "/var/log/{product}/minion";
        /// Format of log messages on the console.
        log_fmt_console: String = "'[%(levelname)-8s] %(message)s'";
        /// Format of log messages in the log file.
        log_fmt_logfile: String = "'%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s'";
        /// Time format on the console.
        log_datefmt: String = "'%H:%M:%S'";
        /// Time format in the log file.
        log_datefmt_logfile: String = "'%Y-%m-%d %H:%M:%S'";
        /// Format of `%(jid)s` in `log_fmt_console` and `log_fmt_logfile`; empty when no job is known.
        log_fmt_jid: String = "'[JID: %(jid)s]'";
        /// Format of `%(minion_id)s` in them; empty when no minion is known.
        log_fmt_minion_id: String = "'[%(minion_id)s]'";
        /// Format of log lines, also in the file unless `log_format_logfile` is set: `salt` or `json` (one object per line).
        log_format: LogFormat = "salt";
        /// Format of lines in the log file: `salt` or `json`. Empty: `log_format`.
        log_format_logfile: Option<LogFormat> = "null";
        /// If the console is systemd's journal, log to it with structured fields instead of text lines.
        log_journald: bool = "true";
        /// Log levels by prefix of the logger's name, such as `halite.master: error`; a leading `salt` means `halite`.
        /// They can only hide messages that the other levels let through. Libraries log only warnings and errors unless
        /// they are named here.
        log_granular_levels: Map = "{}";
    }
}

/// The longest socket name of the minion.
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

    /// The configuration that a file with these options in `dir` would give; only `minion_id` is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let source =
            super::source::Source::from_values(options, dir, Role::Minion, Flavour::of(dir))?;
        Self::from_source(source)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "minion")?;
        finish::roots(&mut source, "file_roots", "/srv/salt");
        finish::roots(&mut source, "pillar_roots", "/srv/pillar");
        let origin = source.origin.clone();
        let chosen = source.sets("salt_series");
        let mut c = Self::read(source)?;
        if !chosen && let Some(found) = InstalledSalt::find(Path::new("/")).and_then(|s| s.series())
        {
            found.apply(&mut c.salt_series, &mut c.warnings);
        }
        c.warnings.extend(finish::unused_option_warnings(
            &c.extra,
            Role::Minion,
            &origin,
        ));
        let checks = finish::Checks::new(&origin);
        checks.hash_type(&mut c.hash_type)?;
        checks.signing("signing_algorithm", &c.signing_algorithm)?;
        let types = ["str", "failover", "distributed", "func", "disable"];
        let oaep = ["OAEP-SHA1", "OAEP-SHA224"];
        checks.one_of("encryption_algorithm", &c.encryption_algorithm, &oaep)?;
        checks.one_of("handshake", &c.handshake, &["auto", "noise", "salt"])?;
        checks.one_of("file_client", &c.file_client, &["remote", "local"])?;
        checks.one_of("master_type", &c.master_type, &types)?;
        checks.positive("max_event_size", c.max_event_size)?;
        finish::logs!(c);
        finish::granular_levels(&mut c.log_granular_levels, &mut c.warnings);
        if c.ssl.options().is_some() && c.transport == Transport::ZeroMq {
            c.warnings.push(super::tls::NO_TLS.to_owned());
        }
        c.resolve_paths();
        paths::check_sockets(&c.sock_dir, LONGEST_SOCKET)?;
        Ok(c)
    }

    /// Puts the paths below `root_dir` and fills the id (`salt/config/__init__.py apply_minion_config`).
    fn resolve_paths(&mut self) {
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
            self.id = self.default_id();
        }
        if let Some(domain) = &self.append_domain
            && !self.id.ends_with(domain.as_str())
            && !self.id.ends_with('.')
            && self.id.parse::<std::net::Ipv4Addr>().is_err()
        {
            self.id = format!("{}.{domain}", self.id);
        }
    }

    fn default_id(&self) -> String {
        let kept = self.minion_id_caching.then(|| self.id_file());
        let kept = kept.and_then(|file| super::id::cached(&file));
        kept.unwrap_or_else(|| {
            let id = super::id::generate();
            if self.minion_id_lowercase {
                id.to_lowercase()
            } else {
                id
            }
        })
    }

    /// The file that stores a generated id: `minion_id` in the configuration directory; with [`Flavour::Salt`] in
    /// `/etc/salt` below `root_dir`, as in stock Salt.
    pub fn id_file(&self) -> PathBuf {
        finish::id_cache(&self.conf_file, self.flavour, &self.root_dir)
    }

    /// Stores a generated id for later starts; the minion does this once at startup.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store_id(&self) -> std::io::Result<()> {
        let file = self.id_file();
        if !self.minion_id_caching || super::id::cached(&file).is_some() {
            return Ok(());
        }
        super::id::cache(&file, &self.id)
    }

    /// Whether frames on the event bus have a length prefix.
    pub fn bus_prefixed(&self) -> bool {
        finish::prefixed(self.event_bus_framing, self.salt_series)
    }

    /// Every option in effect, including unknown ones.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        if let [one] = self.master.as_slice() {
            map.set("master", one.as_str());
        }
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        let dir = self.conf_file.parent().unwrap_or(Path::new("/"));
        map.set("config_dir", dir.to_string_lossy().as_ref());
        map.set("__role", "minion");
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}
