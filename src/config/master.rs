//! Options of the master.

use super::kinds::{
    BusFraming, Decrypt, ExtPillars, Items, JobCacheCompat, LogFormat, Reactions, Roots,
    SaltSeries, TokenOverride,
};
use super::table::options;
use halite_wire::Map;
use std::path::PathBuf;

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
        /// Named pools of workers, each with `worker_count` and the list of `commands` it answers; exactly one pool takes `'*'`.
        worker_pools: Map = "{}";
        /// Use `worker_pools`. When false, one pool of `worker_threads` workers answers everything.
        worker_pools_enabled: bool = "true";
        /// Requests that may wait per class of commands; further ones are turned away.
        request_queue_limit: u32 = "20000";
        /// Bytes of the largest request that is accepted.
        max_request_size: u64 = "134217728";
        /// Seconds after which a request that still waits is dropped.
        request_timeout: u64 = "60";
        /// Sign-ins per second that one address (of IPv6, one network of 64 bits) may ask for once its `auth_rate_burst` is used up;
        /// further ones get no answer. 0 is no limit.
        auth_rate_limit: u32 = "100";
        /// Sign-ins that one address may ask for at once: twice as many as minions share one behind NAT, since they ask again.
        auth_rate_burst: u32 = "10000";
        /// Seconds for which minions wait for the answer to a sign-in (their `auth_timeout`). One that has waited longer is dropped, since
        /// its minion asks again. 0 is no limit but `request_timeout`.
        auth_queue_timeout: u64 = "5";
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
        /// Directory of jobs, minion data, tokens and copies of files.
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
        /// Address and port that tell Prometheus what this master does, at `/metrics` and `/healthz`; whoever can connect can read. Empty: none.
        metrics_address: String = "127.0.0.1:4507";
        /// Agents of other protocols, a map of gateways. `sysinspect`: `interface` (the master's), `port` (4200),
        /// `ping_interval` (5), `session_timeout` (30), `hello_timeout` (10), `job_timeout` (300), all in seconds, `max_frame`
        /// (1048576), `max_queue` (4194304), `max_connections` (10000), `max_strangers` (512), `registrations_per_minute`
        /// (60), `max_pending` (10000), `auto_accept` (false). `arena`: runtimes of WASM modules over MQTT; `servers`
        /// (`localhost:1883`), `user`, `password`, `tls` (false), `tls_ca`, `tls_cert`, `tls_key`, `client_id` (`halite-` and `id`),
        /// `realm` (`realm`), `topics` (`draft`, `scene`), `namespace` (`public`), `keepalive` (60), `policy` (`wait`, `move`, `drop`),
        /// `auto_accept` (false), `max_pending` (10000), `max_managers` (1000), `max_runtimes` (10000), `max_modules` (100000),
        /// `log_lines` (200), `output_lines` (50), `forget_after` (86400), `max_message` (262144), `create_timeout` (10),
        /// `delete_timeout` (30). `collective`: MCollective and Choria; `connector` (`nats`, `rabbitmq`,
        /// `activemq`), `servers`, `user`, `password`, `vhost` (`/`), `tls` (false), `tls_ca`, `tls_cert`, `tls_key`, `identity` (`id`),
        /// `collectives` (`mcollective`), `federations`, `security` (`choria`, `choria-yaml`, `psk`, `ssl`, `aes`), `serializer`
        /// (`marshal`, `yaml`), `psk_file`, `caller`, `ca`, `certificate`, `key`, `callers`, `privileged`, `client_private`,
        /// `client_public`, `server_private`, `server_public`, `client_certs`, `enforce_ttl` (true), `ttl` (60), `timeout` (60),
        /// `discovery_interval` (60), `discovery_timeout` (5), `inventory_interval` (3600), all in seconds, `direct_threshold` (10),
        /// `outward` (true), `auto_accept` (false), `max_pending` (10000), `inward` (true), `inward_targets` (`*`).
        gateways: Map = "{}";
        /// Masters that the syndic on this host serves, all at once. Without one it does not start.
        syndic_master: Vec<String> = "[]";
        /// Port of such a master for requests. 0: the `master_port` of the minion's configuration.
        syndic_master_port: u16 = "0";
        /// What goes up: `sync`: returns, to the master that asked, and all events. `cluster`: returns, to another
        /// master where the one that asked is away, and no events but those about jobs.
        syndic_mode: String = "sync";
        /// Which of several upper masters gets returns that none of them asked for, or whose master is away:
        /// `random` or `ordered`, the first of the list that answers.
        syndic_failover: String = "random";
        /// Messages that an upper master leaves unanswered before another gets such returns.
        syndic_retries: u32 = "3";
        /// Account that the syndic runs as. Empty: `user`.
        syndic_user: Option<String> = "null";
        /// File with the process id of the syndic.
        syndic_pidfile: PathBuf = "/var/run/{product}-syndic.pid";
        /// Seconds between the syndic's messages to its master; returns that came meanwhile go together.
        syndic_event_forward_timeout: String = "0.5";
        /// Jobs of which the syndic remembers that their load has been forwarded.
        syndic_jid_forward_cache_hwm: u32 = "100";
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
        /// Seconds for which the old key stays in use when the next one is ready, so that halite minions fetch it meanwhile, each at
        /// a moment of its own. Deletions of keys within that time after one change the key once more, at its end. 0 changes it at once.
        rotation_grace: u64 = "10";
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
        /// Functions that minions may have run on other minions: patterns of ids, each with a list of patterns of functions, or of maps from a target to such a list.
        peer: Map = "{}";
        /// Runner functions that minions may call: patterns of ids, each with a list of patterns of functions.
        peer_run: Map = "{}";
        /// Mine functions that minions may read: patterns of ids, each with a list of patterns of functions.
        /// Empty: all may read everything that its owner has not restricted.
        mine_get: Option<Map> = "null";
        /// Local users (or patterns of names) and what they may publish.
        publisher_acl: Map = "{}";
        /// `users` who may do nothing and `modules` (patterns of functions) that nobody may call by publishing.
        publisher_acl_blacklist: Map = "{}";
        /// Apply `publisher_acl` to users behind sudo as well.
        sudo_acl: bool = "false";
        /// Make key files only for users of `publisher_acl` who have an account, patterns expanded.
        client_acl_verify: bool = "true";
        /// Systems of external authentication (`pam`, `ldap`, `file`), their users and groups, and what these may do.
        external_auth: Map = "{}";
        /// Grant nothing by `'*'` in `external_auth`, as stock Salt does with this.
        permissive_acl: bool = "false";
        /// Module that would grant permissions; not supported: unless empty, external authentication is refused.
        eauth_acl_module: String = "''";
        /// Seconds for which a token is good.
        token_expire: u64 = "43200";
        /// File in which a command keeps its token. Empty: `salt_token` in `~/.config/salt` or in the home directory.
        token_file: String = "''";
        /// Who may choose another time: true is everybody, or a map of systems to lists of users.
        token_expire_user_override: TokenOverride = "false";
        /// Keep the permissions of the time at which a token is made.
        keep_acl_in_token: bool = "false";
        /// File of decisions on who may do what, a line of JSON each. Empty: none is written.
        audit_log: String = "/var/log/{product}/audit";
        /// Service of PAM that users are checked with.
        auth_pam_service @ "auth.pam.service": String = "login";
        /// LDAP servers as URLs, separated by blanks; goes before `server` and `port`.
        auth_ldap_uri @ "auth.ldap.uri": String = "''";
        /// LDAP server.
        auth_ldap_server @ "auth.ldap.server": String = "localhost";
        /// Port of the LDAP server.
        auth_ldap_port @ "auth.ldap.port": u16 = "389";
        /// Turn TLS on within a plain LDAP connection.
        auth_ldap_starttls @ "auth.ldap.starttls": bool = "false";
        /// Connect to LDAP by TLS.
        auth_ldap_tls @ "auth.ldap.tls": bool = "false";
        /// Do not check the certificate of the LDAP server.
        auth_ldap_no_verify @ "auth.ldap.no_verify": bool = "false";
        /// Not supported: users would get in without proof.
        auth_ldap_anonymous @ "auth.ldap.anonymous": bool = "false";
        /// Not supported: users would get in without proof.
        auth_ldap_by_group @ "auth.ldap.auth_by_group_membership_only": bool = "false";
        /// Where LDAP searches begin.
        auth_ldap_basedn @ "auth.ldap.basedn": String = "''";
        /// Name to bind as: the user's with `{{ username }}`, or, with `bindpw`, that of an account for searching.
        auth_ldap_binddn @ "auth.ldap.binddn": String = "''";
        /// Password of the account for searching.
        auth_ldap_bindpw @ "auth.ldap.bindpw": String = "''";
        /// Filter that finds the entry of the user, with `{{ username }}`.
        auth_ldap_filter @ "auth.ldap.filter": String = "''";
        /// Depth of that search: 0 the base alone, 1 below it, 2 everything.
        auth_ldap_scope @ "auth.ldap.scope": u32 = "2";
        /// Unit of the directory that holds groups.
        auth_ldap_groupou @ "auth.ldap.groupou": String = "Groups";
        /// Object class of groups.
        auth_ldap_groupclass @ "auth.ldap.groupclass": String = "posixGroup";
        /// Attribute that names users, in groups and in Active Directory.
        auth_ldap_account @ "auth.ldap.accountattributename": String = "memberUid";
        /// Attribute of a user that names groups.
        auth_ldap_groupattribute @ "auth.ldap.groupattribute": String = "memberOf";
        /// Object class of users in Active Directory.
        auth_ldap_persontype @ "auth.ldap.persontype": String = "person";
        /// The server is an Active Directory.
        auth_ldap_ad @ "auth.ldap.activedirectory": bool = "false";
        /// The server is a FreeIPA.
        auth_ldap_freeipa @ "auth.ldap.freeipa": bool = "false";
        /// Where FreeIPA has its groups.
        auth_ldap_group_basedn @ "auth.ldap.group_basedn": String = "''";
        /// Filter of groups in FreeIPA, with `{{ username }}`.
        auth_ldap_group_filter @ "auth.ldap.group_filter": String = "''";
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
        /// Named compound targets. With the gateway for collectives, names that are not here mean the nodes with
        /// a class of that name.
        nodegroups: Map = "{}";
        /// This master serves lower masters.
        order_masters: bool = "false";
        /// Seconds that `salt` waits for lower masters to say whom they expect to return.
        syndic_wait: u64 = "5";
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
        event_return: Vec<String> = "''";
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
        /// Keep the mine even where `minion_data_cache` is off.
        enforce_mine_cache: bool = "false";
        /// Reactions: a list of `tag glob: [SLS files]`, or the path of a YAML file with such a list.
        reactor: Reactions = "[]";
        /// Reactions that may wait for a worker; further ones are dropped, with an error in the log.
        reactor_worker_hwm: u32 = "10000";
        /// Runners and wheel functions of reactions that run at once.
        reactor_worker_threads: u32 = "10";
        /// Seconds for which the reactor keeps what it has built once: grains, options and pillar that reaction files
        /// see, and its client for jobs.
        reactor_refresh_interval: u64 = "60";
        /// What is added to the nice value of the reactor; below 0 needs the right to do so.
        reactor_niceness: Option<i32> = "null";
        /// Runner and wheel functions by the clock: a map of names to `function`, `seconds`, `cron`, `when`, ...
        schedule: Map = "{}";
        /// Returners that get the results of all of them, besides those that a job names.
        schedule_returner: Vec<String> = "[]";
        /// Fire events about who is connected, every `loop_interval`.
        presence_events: bool = "false";
        /// Fire an event for every sign-in.
        auth_events: bool = "true";
    }

    Files {
        /// Directories of the file server, per environment.
        file_roots: Roots = "{base: [/srv/salt, /srv/spm/salt]}";
        /// Where files come from, the first has precedence: `roots`, `gitfs` (or `git`), `minionfs` (or `minion`).
        fileserver_backend: Vec<String> = "[roots]";
        /// Regular expressions of files that are neither listed nor served.
        file_ignore_regex: Vec<String> = "[]";
        /// Globs of files that are neither listed nor served.
        file_ignore_glob: Vec<String> = "[]";
        /// Follow symbolic links in `file_roots`, out of them too. When false, only links that stay inside.
        fileserver_followsymlinks: bool = "true";
        /// Leave symbolic links out of lists of files.
        fileserver_ignoresymlinks: bool = "false";
        /// Seconds for which a list of files is kept.
        fileserver_list_cache_time: u64 = "20";
        /// Fire an event when the file server looks for changes.
        fileserver_events: bool = "false";
        /// Seconds between looks for changes in `file_roots`, for `fileserver_events`.
        roots_update_interval: u64 = "60";
        /// Bytes of one piece of a file on its way to a minion.
        file_buffer_size: u64 = "1048576";
        /// Let minions send files to the master (`cp.push`).
        file_recv: bool = "false";
        /// Megabytes of the largest file that a minion may send.
        file_recv_max_size: u64 = "100";
        /// Bytes of one piece of a file that `halite-cp --chunked` sends.
        salt_cp_chunk_size: u64 = "98304";
        /// Environment of files that minions have sent.
        minionfs_env: String = "base";
        /// Directory below which they appear.
        minionfs_mountpoint: String = "''";
        /// Globs of minions whose files are offered. Empty: of all.
        minionfs_whitelist: Vec<String> = "[]";
        /// Globs of minions whose files are not offered.
        minionfs_blacklist: Vec<String> = "[]";
        /// Directory into which `saltutil.sync_*` copies modules in Python, for stock's tools. Empty:
        /// `extmods` in `cachedir`.
        extension_modules: PathBuf = "/var/cache/{product}/master/extmods";
        /// Let `saltutil.sync_*` remove modules there that the file server has no more.
        clean_dynamic_modules: bool = "true";
        /// Modules that `saltutil.sync_*` copies: lists of names per kind (`modules`, `states`, ...).
        /// All of a kind without an entry.
        extmod_whitelist: Map = "{}";
        /// Modules that it does not copy, in the same form.
        extmod_blacklist: Map = "{}";
        /// Repositories of the backend `gitfs`: URLs, or maps of a URL to a list of its options.
        gitfs_remotes: Items = "[]";
        /// Branch, tag or commit that is the environment `base`.
        gitfs_base: String = "master";
        /// Directory of the repositories that is served. Empty: all.
        gitfs_root: String = "''";
        /// Directory below which files of repositories appear.
        gitfs_mountpoint: String = "''";
        /// Environments with their `ref`, `root` and `mountpoint`.
        gitfs_saltenv: Map = "{}";
        /// What can be an environment: `branch`, `tag`, `sha`; looked for in this order.
        gitfs_ref_types: Vec<String> = "[branch, tag, sha]";
        /// Offer no environments but those of `gitfs_saltenv` and `base`.
        gitfs_disable_saltenv_mapping: bool = "false";
        /// Globs or expressions of environments to offer. Empty: all.
        gitfs_saltenv_whitelist: Vec<String> = "[]";
        /// Globs or expressions of environments not to offer.
        gitfs_saltenv_blacklist: Vec<String> = "[]";
        /// Branch or tag that stands in for environments that a repository does not have.
        gitfs_fallback: String = "''";
        /// What is fetched, and where to: below refs/remotes/origin/ or refs/tags/.
        gitfs_refspecs: Vec<String> = "['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*']";
        /// Seconds between fetches.
        gitfs_update_interval: u64 = "60";
        /// Check certificates of HTTPS.
        gitfs_ssl_verify: bool = "true";
        /// Name to authenticate with, over HTTP.
        gitfs_user: String = "''";
        /// Password to authenticate with, over HTTP.
        gitfs_password: String = "''";
        /// File with the key to authenticate with, over SSH.
        gitfs_privkey: String = "''";
        /// Proxy for HTTP.
        gitfs_proxy: String = "''";
        /// How top files of several environments are merged: `merge`, `merge_all` or `same`.
        top_file_merging_strategy: String = "merge";
        /// Order of the environments when top files are merged.
        env_order: Vec<String> = "[]";
        /// Environment whose top file counts with the strategy `same`.
        default_top: String = "base";
        /// How state and pillar files are rendered.
        renderer: String = "jinja|yaml";
        /// Renderers that are not used.
        renderer_blacklist: Vec<String> = "[]";
        /// The only renderers that are used; empty allows all.
        renderer_whitelist: Vec<String> = "[]";
        /// Directories of the pillar, per environment; the environment `__env__` stands for any other.
        pillar_roots: Roots = "{base: [/srv/pillar, /srv/spm/pillar]}";
        /// The one environment of the pillar that counts. Empty: all.
        pillarenv: Option<String> = "null";
        /// Take the environment of the pillar from the minion's `saltenv`.
        pillarenv_from_saltenv: bool = "false";
        /// Put the options of the master into the pillar, under `master`.
        pillar_opts: bool = "false";
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
        /// Keep compiled pillars.
        pillar_cache: bool = "false";
        /// Seconds that a compiled pillar is kept.
        pillar_cache_ttl: u64 = "3600";
        /// Where it is kept: `disk`, or `memory` of each worker.
        pillar_cache_backend: String = "disk";
        /// What of the compiled pillar is decrypted last: a list of keys, or of maps of a key to its renderer.
        decrypt_pillar: Decrypt = "[]";
        /// What stands between the levels of these keys.
        decrypt_pillar_delimiter: String = "':'";
        /// Renderer of keys that name none.
        decrypt_pillar_default: String = "gpg";
        /// Renderers that may be named.
        decrypt_pillar_renderers: Vec<String> = "[gpg]";
        /// Directory of the keys of the renderer `gpg`. Empty: `gpgkeys` beside the configuration file.
        gpg_keydir: String = "''";
        /// Let a pillar file fail that has something `gpg` cannot decrypt, rather than leave it as it is. Empty: unless `salt_series` is 3006.
        gpg_decrypt_must_succeed: Option<bool> = "null";
        /// Hold what `gpg` decrypted in the memory of each worker.
        gpg_cache: bool = "false";
        /// Seconds that it is held.
        gpg_cache_ttl: u64 = "86400";
        /// Branch of the external pillar `git` that is the environment `base`.
        git_pillar_base: String = "master";
        /// Branch of repositories that are named without one.
        git_pillar_branch: String = "master";
        /// Environment of all these branches. Empty: the name of the branch.
        git_pillar_env: String = "''";
        /// Directory of the repository that is the root of the pillar.
        git_pillar_root: String = "''";
        /// Branch or tag for those that a repository does not have. Empty: none.
        git_pillar_fallback: String = "''";
        /// What is fetched of repositories.
        git_pillar_refspecs: Vec<String> = "['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*']";
        /// Account at servers that are reached by HTTP.
        git_pillar_user: String = "''";
        /// Its password.
        git_pillar_password: String = "''";
        /// File with the private key for servers that are reached by SSH.
        git_pillar_privkey: String = "''";
        /// Proxy for HTTP.
        git_pillar_proxy: String = "''";
        /// Let pillar files include those of other repositories of the same environment.
        git_pillar_includes: bool = "true";
        /// Seconds between fetches of one repository.
        git_pillar_update_interval: u64 = "60";
        /// Check the certificates of git servers.
        git_pillar_ssl_verify: bool = "true";
        /// Protocol of pillar answers; 1 is for minions older than those that are supported.
        pillar_version: u32 = "2";
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
        /// Where the states of a minion are named besides the top file. `ext_nodes` is a command that gets the id.
        master_tops: Map = "{}";
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
        /// Log file. Empty: none.
        log_file: String = "/var/log/{product}/master";
        /// Log file of the syndic.
        syndic_log_file: String = "/var/log/{product}/syndic";
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
