//! Options of the master.

use super::kinds::{
    BusFraming, Decrypt, Entries, ExtPillars, Items, JobCacheCompat, LogFormat, Networks,
    PeerRules, Reactions, Roots, SaltSeries, TokenOverride, Transports,
};
use super::table::options;
use super::tls::Ssl;
use halite_wire::{KeyType, Map, Transport};
use std::path::PathBuf;

options! {
    /// Configuration of the master and of its commands.
    MasterConfig,
    /// Every option of the master.
    MASTER_OPTIONS;

    Network {
        /// Address on which both ports listen.
        interface: String = "0.0.0.0";
        /// Port on which jobs are published to minions.
        publish_port: u16 = "4505";
        /// Port on which minions sign in, return results and fetch files.
        ret_port: u16 = "4506";
        /// Protocol of both ports: `zeromq`, `tcp` or `ws` (WebSocket). The minions must have the same, and the commands on this
        /// host use it.
        transport: Transport = "zeromq";
        /// Transports that are served besides `transport`, so that a fleet can move from one to another. The ports of the
        /// first one are 100 higher than `publish_port` and `ret_port`, those of the second one 200.
        transports: Transports = "[]";
        /// Other values for one transport: a map of `zeromq`, `tcp` or `ws` to maps with `interface`, `publish_port` and
        /// `ret_port`. A transport that is named here is served.
        transport_opts: Map = "{}";
        /// TLS on both ports of `tcp` and `ws`: a map of `certfile`, `keyfile`, and `ca_certs` to require certificates of
        /// minions; also `cert_reqs`, `ssl_version`, `ciphers`, `verify_locations`, `verify_flags`. Changed files are read again.
        ssl: Ssl = "null";
        /// Listen on IPv6. Empty: depends on `interface`.
        ipv6: Option<bool> = "null";
        /// Number of worker processes that answer requests, unless `worker_pools` is in use.
        worker_threads: u32 = "5";
        /// Named pools of workers, each with a `worker_count` and the list of `commands` it answers; exactly one pool
        /// has the command `'*'`.
        worker_pools: Map = "{}";
        /// Use `worker_pools`. When false, one pool of `worker_threads` workers answers everything.
        worker_pools_enabled: bool = "true";
        /// Requests that may wait per class of commands; further ones are refused.
        request_queue_limit: u32 = "20000";
        /// Largest request accepted, in bytes.
        max_request_size: u64 = "134217728";
        /// Seconds after which a waiting request is dropped.
        request_timeout: u64 = "60";
        /// Sign-ins per second accepted from one address (IPv6: from one /64 network) once its `auth_rate_burst` is
        /// used up; further ones get no answer. 0: no limit.
        auth_rate_limit: u32 = "100";
        /// Sign-ins accepted at once from one address. Behind NAT, allow twice as many as minions share the address,
        /// since they retry.
        auth_rate_burst: u32 = "10000";
        /// Seconds that minions wait for the answer to a sign-in (their `auth_timeout`). Sign-ins that have waited
        /// longer are dropped, since the minion has retried. 0: only `request_timeout` applies.
        auth_queue_timeout: u64 = "5";
        /// Addresses and networks of the load balancers in front of both ports, such as `[10.0.0.5, 10.1.0.0/24]`.
        /// Their connections must begin with a header of the PROXY protocol, version 2 (`send-proxy-v2` in HAProxy),
        /// and count as those of the address in it; others are never read for one. Empty: there are none.
        proxy_protocol: Networks = "[]";
        /// Account that the processes run as.
        user: String = "root";
        /// Directory prepended to the paths below, except `file_roots`.
        root_dir: PathBuf = "/";
        /// PID file.
        pidfile: PathBuf = "/var/run/{product}-master.pid";
        /// Directory of the local sockets.
        sock_dir: PathBuf = "/var/run/{product}/master";
        /// Directory for the keys of the master and the minions.
        pki_dir: PathBuf = "/etc/{product}/pki/master";
        /// Directory for jobs, minion data, tokens and file copies.
        cachedir: PathBuf = "/var/cache/{product}/master";
        /// Open files allowed per process.
        max_open_files: u64 = "100000";
        /// Length of the accept queue of each port.
        zmq_backlog: i32 = "1000";
        /// Publications that may be queued for one minion; further ones to it are dropped.
        pub_hwm: i32 = "1000";
        /// Send a publication only to the minions it targets. The minions must set this too.
        zmq_filtering: bool = "false";
        /// Send a job for up to 100 minions by glob, list or regular expression to each of them under its own session key, if all
        /// of them are halite's, so that others cannot read it. Not with `order_masters`, and not in a cluster.
        publish_private: bool = "false";
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
        /// Seconds between maintenance rounds.
        loop_interval: u64 = "60";
        /// Maximum number of connected minions; 0: no limit.
        max_minions: u32 = "0";
        /// Release of Salt whose tools are used on this host: 3006, 3007 or 3008. Decides the cache layout. Not set: that
        /// of the installed Salt or, without one, of the cache that is there.
        salt_series: SaltSeries = "3008";
        /// Framing of the event bus: `auto` (what the tools of `salt_series` read), `bare` or `prefixed`.
        event_bus_framing: BusFraming = "auto";
        /// Events that may be queued for one slow listener, besides `ipc_write_buffer`; 0: any number.
        event_queue_limit: u32 = "0";
        /// Bytes that may be queued for one slow listener; 0: 32 MiB.
        ipc_write_buffer: u64 = "0";
        /// Largest event, in bytes.
        max_event_size: u64 = "1048576";
        /// Address and port that serve Prometheus metrics at `/metrics` and health at `/healthz`, without
        /// authentication. Empty: none.
        metrics_address: String = "127.0.0.1:4507";
        /// Gateways to agents of other protocols. `sysinspect`: `interface` (the master's), `port` (4200),
        /// `ping_interval` (5), `session_timeout` (30), `hello_timeout` (10), `job_timeout` (300), all in seconds,
        /// `max_frame` (1048576), `max_queue` (4194304), `max_connections` (10000), `max_strangers` (512),
        /// `registrations_per_minute` (60), `max_pending` (10000), `auto_accept` (false). `arena`: runtimes of WASM
        /// modules over MQTT; `servers` (`localhost:1883`), `user`, `password`, `tls` (false), `tls_ca`, `tls_cert`,
        /// `tls_key`, `client_id` (`halite-` and `id`), `realm` (`realm`), `topics` (`draft`, `scene`), `namespace`
        /// (`public`), `keepalive` (60), `policy` (`wait`, `move`, `drop`), `auto_accept` (false), `max_pending`
        /// (10000), `max_managers` (1000), `max_runtimes` (10000), `max_modules` (100000), `log_lines` (200),
        /// `output_lines` (50), `forget_after` (86400), `max_message` (262144), `create_timeout` (10), `delete_timeout`
        /// (30). `collective`: MCollective and Choria; `connector` (`nats`, `rabbitmq`, `activemq`), `servers`, `user`,
        /// `password`, `vhost` (`/`), `tls` (false), `tls_ca`, `tls_cert`, `tls_key`, `identity` (`id`), `collectives`
        /// (`mcollective`), `federations`, `security` (`choria`, `choria-yaml`, `psk`, `ssl`, `aes`), `serializer`
        /// (`marshal`, `yaml`), `psk_file`, `caller`, `ca`, `certificate`, `key`, `callers`, `privileged`,
        /// `client_private`, `client_public`, `server_private`, `server_public`, `client_certs`, `enforce_ttl` (true),
        /// `ttl` (60), `timeout` (60), `discovery_interval` (60), `discovery_timeout` (5), `inventory_interval` (3600),
        /// all in seconds, `direct_threshold` (10), `outward` (true), `auto_accept` (false), `max_pending` (10000),
        /// `inward` (true), `inward_targets` (`*`).
        gateways: Map = "{}";
        /// Name of the cluster of masters that this one belongs to: letters, digits, `-` and `_`. Empty: it is on its own. All
        /// of them have the same `master.pem`; a master without one takes over that of the others.
        cluster_id: Option<String> = "null";
        /// The secret of the cluster, at least 32 characters, or the path of a file with it. What the masters tell each other
        /// is sealed with it, and the keys that minions get are derived from it.
        cluster_secret: Option<String> = "null";
        /// Ids of the masters that should be in the cluster: `cluster.members` and metrics tell who is missing. If NATS loses
        /// its data, these fill it again when all of them are there.
        cluster_peers: Vec<String> = "[]";
        /// Directory with the key that minions know the masters of the cluster by, `cluster.pem` and `cluster.pub`, as in stock's
        /// clusters. Empty: `cluster.pem` in `pki_dir`, if it is there, else `master.pem`.
        cluster_pki_dir: Option<PathBuf> = "null";
        /// SHA-256 of the public key of the cluster, in hex: a master takes over no other key.
        cluster_pub_fingerprint: Option<String> = "null";
        /// How the masters reach each other, over NATS with JetStream: `servers` (`localhost:4222`), `user`, `password`, `tls`
        /// (false), `tls_ca`, `tls_cert`, `tls_key`, `replicas` (3, the number of servers that keep a copy), `keep` (86400, the
        /// seconds for which they keep what masters tell each other about jobs), `keep_bytes` (1073741824, how many bytes of it),
        /// `patience` (2, seconds for which the answer to a return waits until they have it; 0: it does not wait), `acknowledge`
        /// (`local`: after that time the master answers for itself; `quorum`: it does not, and the minion sends again), `drain` (30,
        /// seconds in which `cluster.drain` sends minions away).
        cluster: Map = "{}";
        /// Masters that the syndic on this host serves, all at the same time. If empty, the syndic does not start.
        syndic_master: Vec<String> = "[]";
        /// Request port of these masters. 0: `master_port` from the minion's configuration.
        syndic_master_port: u16 = "0";
        /// What the syndic forwards. `sync`: returns to the master that asked, and all events. `cluster`: returns to
        /// another master if the one that asked is down, and only events about jobs.
        syndic_mode: String = "sync";
        /// Which of several upper masters gets returns that none of them asked for, or whose master is down: `random`,
        /// or `ordered` (the first in the list that answers).
        syndic_failover: String = "random";
        /// Messages an upper master may leave unanswered before another one gets such returns.
        syndic_retries: u32 = "3";
        /// Account that the syndic runs as. Empty: `user`.
        syndic_user: Option<String> = "null";
        /// PID file of the syndic.
        syndic_pidfile: PathBuf = "/var/run/{product}-syndic.pid";
        /// Seconds between the syndic's messages to its master; returns that arrive in between are sent together.
        syndic_event_forward_timeout: String = "0.5";
        /// Number of jobs for which the syndic remembers that it has forwarded their load.
        syndic_jid_forward_cache_hwm: u32 = "100";
        /// Id of the master itself. Empty: the host name and `_master`.
        id: String = "''";
        /// Files read after this one, in the order of their names; later values replace earlier ones.
        default_include: String = "master.d/*.conf";
        /// Further files or patterns of files to read.
        include: Vec<String> = "[]";
    }

    Security {
        /// Accept the key of every minion. For tests only.
        auto_accept: bool = "false";
        /// Accept every key, even a changed one, and turn authentication off. For tests only.
        open_mode: bool = "false";
        /// File with ids or patterns whose keys are accepted automatically.
        autosign_file: Option<PathBuf> = "null";
        /// File with ids or patterns whose keys are rejected automatically.
        autoreject_file: Option<PathBuf> = "null";
        /// Minutes for which an id in `minions_autosign` is valid.
        autosign_timeout: u64 = "120";
        /// Directory with one file per grain; a key is accepted if the grain's value is listed in its file.
        autosign_grains_dir: Option<PathBuf> = "null";
        /// Allow keys and key directories to be readable by the group.
        permissive_pki_access: bool = "false";
        /// Size of new RSA keys, in bits.
        keysize: u32 = "2048";
        /// Type of a new master key: `rsa`, or `ed25519` for a master of halite's minions alone.
        key_type: KeyType = "rsa";
        /// Sign the master's public key in the answers to sign-ins.
        master_sign_pubkey: bool = "false";
        /// Name of the key pair used for that.
        master_sign_key_name: String = "master_sign";
        /// File in `pki_dir` with a signature made in advance.
        master_pubkey_signature: Option<String> = "null";
        /// Use that file instead of signing each time.
        master_use_pubkey_signature: bool = "false";
        /// Sign every publication.
        sign_pub_messages: bool = "true";
        /// Signature algorithm for publications: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        publish_signing_algorithm: String = "PKCS1v15-SHA1";
        /// Signature algorithm for the master's public key: `PKCS1v15-SHA1` or `PKCS1v15-SHA224`.
        signing_algorithm: String = "PKCS1v15-SHA1";
        /// Lowest version of the envelope accepted from peers; 3 is the lowest that this master supports.
        minimum_auth_version: u32 = "3";
        /// Seconds after which the session key changes.
        publish_session: u64 = "86400";
        /// Seconds for which the old session key stays in use after the next one is ready, so that halite minions can
        /// fetch the new one at different times. If keys are deleted within that time, the session key changes once
        /// more at its end. 0: change at once.
        rotation_grace: u64 = "10";
        /// Change the session key when a key is deleted or rejected.
        rotate_aes_key: bool = "true";
        /// Ping all minions after the session key has changed, so that they fetch the new one.
        ping_on_rotate: bool = "false";
        /// Keep the grains and pillar of a minion whose key is deleted.
        preserve_minion_cache: bool = "false";
        /// Maximum age of a request in seconds; 0: no limit.
        request_server_ttl: u64 = "0";
        /// Refuse returns that the minion has not signed.
        require_minion_sign_messages: bool = "false";
        /// Drop returns with an invalid signature.
        drop_messages_signature_fail: bool = "false";
        /// Let minions revoke their own key.
        allow_minion_key_revoke: bool = "true";
        /// Functions that minions may run on other minions: patterns of ids, each with a list of function patterns, or
        /// of maps from a target to such a list.
        peer: PeerRules = "{}";
        /// Runner functions that minions may call: patterns of ids, each with a list of function patterns.
        peer_run: PeerRules = "{}";
        /// Mine functions that minions may read: patterns of ids, each with a list of function patterns. Empty: every
        /// minion may read everything that the owner has not restricted.
        mine_get: Option<Map> = "null";
        /// Local users (or patterns of user names) and the functions they may publish.
        publisher_acl: Map = "{}";
        /// `users` who may publish nothing, and `modules` (function patterns) that nobody may publish.
        publisher_acl_blacklist: Map = "{}";
        /// Apply `publisher_acl` to users of sudo as well.
        sudo_acl: bool = "false";
        /// Create key files only for users in `publisher_acl` that have an account, after expanding patterns.
        client_acl_verify: bool = "true";
        /// Authentication systems (`pam`, `ldap`, `file`, `oidc`, `sharedsecret`, `auto`), their users, and what these may do.
        external_auth: Map = "{}";
        /// The password of all users of `external_auth: sharedsecret`, at least 16 characters.
        sharedsecret: String = "''";
        /// Do not let `'*'` in `external_auth` grant anything, as stock Salt does with this option.
        permissive_acl: bool = "false";
        /// The REST service, compatible with `salt-api`, and the console: a map of `port`, `host`, `ssl_crt`, `ssl_key`, `ssl_chain`, `disable_ssl`,
        /// `max_request_body_size`, `cors_origins`, `authorized_ips`, `api_acl`, `webhook_url`, `webhook_disable_auth`, `rate_limit`, `console`,
        /// `arena`, `app`, `app_path`, `static`, `static_path`, `user` and `audit_log`. It runs where `port` is set.
        api: Map = "{}";
        /// The same under Salt's name, if `api` is not set.
        rest_cherrypy: Map = "{}";
        /// Clients that the REST service runs commands for: `local`, `local_async`, `local_batch`, `local_subset`, `runner`,
        /// `runner_async`, `wheel`, `wheel_async`.
        netapi_enable_clients: Vec<String> = "[]";
        /// Seconds for which the REST service waits for a runner.
        rest_timeout: u64 = "300";
        /// Module that grants permissions; not supported. If it is set, external authentication is refused.
        eauth_acl_module: String = "''";
        /// Lifetime of a token in seconds.
        token_expire: u64 = "43200";
        /// File in which commands store their token. Empty: `salt_token` in `~/.config/salt` or in the home directory.
        token_file: String = "''";
        /// Who may choose another lifetime: true for everybody, or a map of systems to lists of users.
        token_expire_user_override: TokenOverride = "false";
        /// Keep the permissions that applied when the token was made.
        keep_acl_in_token: bool = "false";
        /// Log of authorization decisions, one line of JSON each. Empty: none.
        audit_log: String = "/var/log/{product}/audit";
        /// PAM service used to check users.
        auth_pam_service @ "auth.pam.service": String = "login";
        /// LDAP servers as URLs, separated by spaces; takes precedence over `server` and `port`.
        auth_ldap_uri @ "auth.ldap.uri": String = "''";
        /// LDAP server.
        auth_ldap_server @ "auth.ldap.server": String = "localhost";
        /// Port of the LDAP server.
        auth_ldap_port @ "auth.ldap.port": u16 = "389";
        /// Use STARTTLS on a plain LDAP connection.
        auth_ldap_starttls @ "auth.ldap.starttls": bool = "false";
        /// Connect to LDAP over TLS.
        auth_ldap_tls @ "auth.ldap.tls": bool = "false";
        /// Do not check the certificate of the LDAP server.
        auth_ldap_no_verify @ "auth.ldap.no_verify": bool = "false";
        /// Not supported: users would be let in without a password check.
        auth_ldap_anonymous @ "auth.ldap.anonymous": bool = "false";
        /// Not supported: users would be let in without a password check.
        auth_ldap_by_group @ "auth.ldap.auth_by_group_membership_only": bool = "false";
        /// Base DN of LDAP searches.
        auth_ldap_basedn @ "auth.ldap.basedn": String = "''";
        /// DN to bind as: that of the user, with `{{ username }}`, or, with `bindpw`, that of a search account.
        auth_ldap_binddn @ "auth.ldap.binddn": String = "''";
        /// Password of the search account.
        auth_ldap_bindpw @ "auth.ldap.bindpw": String = "''";
        /// Filter that finds the user's entry, with `{{ username }}`.
        auth_ldap_filter @ "auth.ldap.filter": String = "''";
        /// Scope of that search: 0 only the base, 1 one level below it, 2 the whole tree.
        auth_ldap_scope @ "auth.ldap.scope": u32 = "2";
        /// Organizational unit that holds the groups.
        auth_ldap_groupou @ "auth.ldap.groupou": String = "Groups";
        /// Object class of groups.
        auth_ldap_groupclass @ "auth.ldap.groupclass": String = "posixGroup";
        /// Attribute that holds user names, in groups and in Active Directory.
        auth_ldap_account @ "auth.ldap.accountattributename": String = "memberUid";
        /// Attribute of a user that lists groups.
        auth_ldap_groupattribute @ "auth.ldap.groupattribute": String = "memberOf";
        /// Object class of users in Active Directory.
        auth_ldap_persontype @ "auth.ldap.persontype": String = "person";
        /// The server is an Active Directory.
        auth_ldap_ad @ "auth.ldap.activedirectory": bool = "false";
        /// The server is a FreeIPA.
        auth_ldap_freeipa @ "auth.ldap.freeipa": bool = "false";
        /// Base DN of groups in FreeIPA.
        auth_ldap_group_basedn @ "auth.ldap.group_basedn": String = "''";
        /// Filter for groups in FreeIPA, with `{{ username }}`.
        auth_ldap_group_filter @ "auth.ldap.group_filter": String = "''";
    }

    Jobs {
        /// Seconds that `salt` waits for returns before it asks minions which jobs still run.
        timeout: u64 = "5";
        /// Seconds that it waits for the answers to that question.
        gather_job_timeout: u64 = "10";
        /// Seconds that a client waits for the master to publish a job.
        publish_timeout: u64 = "30";
        /// List the minions that did not return.
        show_timeout: bool = "true";
        /// Print the job id of every command.
        show_jid: bool = "false";
        /// Print a summary after every command.
        cli_summary: bool = "false";
        /// Run commands for at least this many minions in batches; 0: never.
        batch_safe_limit: u32 = "0";
        /// Size of such a batch.
        batch_safe_size: u32 = "8";
        /// Named compound targets. With the collective gateway, unknown names mean the nodes with a class of that name.
        nodegroups: Map = "{}";
        /// Serve lower masters (syndics).
        order_masters: bool = "false";
        /// Seconds that `salt` waits for lower masters to list the minions they expect to return.
        syndic_wait: u64 = "5";
        /// Hours for which jobs are kept. Old name; `keep_jobs_seconds` wins.
        keep_jobs: u64 = "24";
        /// Seconds for which jobs are kept; 0: forever.
        keep_jobs_seconds: u64 = "86400";
        /// Store returns.
        job_cache: bool = "true";
        /// How much of the job cache stock tools can read: `none`, `load` (enough for the stock CLI), `full` (`salt-run
        /// jobs.*` as well; the files come a moment after the return), or `auto`: `full` where stock tools are installed,
        /// the configuration directory is Salt's, or an option is set that only Salt has, otherwise `load`.
        job_cache_compat: JobCacheCompat = "auto";
        /// Add the process id to job ids.
        unique_jid: bool = "false";
        /// Database that gets a copy of every job and return: `local_cache` (none, only the job log), `pgjsonb`,
        /// `postgres`, `redis` or `sqlite3`.
        master_job_cache: String = "local_cache";
        /// Returner that minions use for every job of the local clients; the master stores the loads there.
        ext_job_cache: String = "''";
        /// Returners that get all events: `pgjsonb`, `postgres`, `rawfile_json`, or Python files with `event_return`.
        event_return: Vec<String> = "''";
        /// Events collected before they are written; 0: write at once.
        event_return_queue: u32 = "0";
        /// Seconds after which collected events are written in any case; 0: only when there are enough.
        event_return_queue_max_seconds: u64 = "0";
        /// Tag globs; only matching events are written. Empty: all.
        event_return_whitelist: Vec<String> = "[]";
        /// Tag globs; matching events are not written.
        event_return_blacklist: Vec<String> = "[]";
        /// Runners started through the master that may run at once; further ones wait.
        runner_processes: u32 = "20";
        /// Runners that may wait; further ones are refused.
        runner_queue_limit: u32 = "100";
        /// Directory for the queues of `queue.*`.
        sqlite_queue_dir: PathBuf = "/var/cache/{product}/master/queues";
        /// Queue of `queue.insert_runner` and `queue.process_runner`: a map with `queue` and `backend`.
        runner_queue: Map = "{}";
        /// Store results of runners.
        runner_returns: bool = "true";
        /// Store the grains and pillar of minions; needed for targeting by them.
        minion_data_cache: bool = "true";
        /// Fire an event when this data changes.
        minion_data_cache_events: bool = "true";
        /// Store the mine even if `minion_data_cache` is off.
        enforce_mine_cache: bool = "false";
        /// Reactions: a list of `tag glob: [SLS files]`, or the path of a YAML file with such a list.
        reactor: Reactions = "[]";
        /// Reactions that may wait for a worker; further ones are dropped and logged as errors.
        reactor_worker_hwm: u32 = "10000";
        /// Runners and wheel functions that reactions may run at once.
        reactor_worker_threads: u32 = "10";
        /// Seconds for which the reactor caches the grains, options and pillar that reaction files see, and its job
        /// client.
        reactor_refresh_interval: u64 = "60";
        /// Added to the nice value of the reactor; negative values need privileges.
        reactor_niceness: Option<i32> = "null";
        /// Scheduled runner and wheel functions: a map of names to `function`, `seconds`, `cron`, `when`, ...
        schedule: Map = "{}";
        /// Returners that get the results of all scheduled jobs, besides those a job names.
        schedule_returner: Vec<String> = "[]";
        /// Fire events about connected minions, every `loop_interval`.
        presence_events: bool = "false";
        /// Fire an event for every sign-in.
        auth_events: bool = "true";
        /// Kinds of these events (`accept`, `pend`, `reject`, ...) with the grains sent for `autosign_grains_dir`.
        auth_events_autosign_grains: Vec<String> = "[]";
    }

    Files {
        /// Directories of the file server, per environment.
        file_roots: Roots = "{base: [/srv/salt, /srv/spm/salt]}";
        /// File server backends in order of precedence: `roots`, `gitfs` (or `git`), `minionfs` (or `minion`).
        fileserver_backend: Vec<String> = "[roots]";
        /// Regular expressions; matching files are neither listed nor served.
        file_ignore_regex: Vec<String> = "[]";
        /// Globs; matching files are neither listed nor served.
        file_ignore_glob: Vec<String> = "[]";
        /// Follow symbolic links that lead out of `file_roots`. If false, only links that stay inside are followed.
        fileserver_followsymlinks: bool = "true";
        /// Leave symbolic links out of file lists.
        fileserver_ignoresymlinks: bool = "false";
        /// Seconds for which file lists are cached.
        fileserver_list_cache_time: u64 = "20";
        /// Fire an event when the file server checks for changes.
        fileserver_events: bool = "false";
        /// Seconds between checks for changes in `file_roots`, for `fileserver_events`.
        roots_update_interval: u64 = "60";
        /// Chunk size in bytes for files sent to minions.
        file_buffer_size: u64 = "1048576";
        /// Let minions send files to the master (`cp.push`).
        file_recv: bool = "false";
        /// Largest file a minion may send, in megabytes.
        file_recv_max_size: u64 = "100";
        /// Chunk size in bytes for files that `halite-cp --chunked` sends.
        salt_cp_chunk_size: u64 = "98304";
        /// Environment that offers the files sent by minions.
        minionfs_env: String = "base";
        /// Directory prefix of these files.
        minionfs_mountpoint: String = "''";
        /// Globs of minions whose files are offered. Empty: all.
        minionfs_whitelist: Vec<String> = "[]";
        /// Globs of minions whose files are not offered.
        minionfs_blacklist: Vec<String> = "[]";
        /// Directory to which `saltutil.sync_*` copies Python files. Empty: `extmods` in `cachedir`.
        extension_modules: PathBuf = "/var/cache/{product}/master/extmods";
        /// The Python interpreter for Python files of users. Empty: the first `python3` in `PATH`.
        python: String = "''";
        /// An installed Salt whose Python modules this master uses where it has none: its virtual environment, or its Python.
        legacy_salt: String = "''";
        /// Directories with Python files in `runners`, `pillar` and so on.
        module_dirs: Vec<String> = "[]";
        /// Further directories with runners in Python.
        runner_dirs: Vec<String> = "[]";
        /// Further directories with wheel modules in Python.
        wheel_dirs: Vec<String> = "[]";
        /// Further directories with external pillars in Python.
        pillar_dirs: Vec<String> = "[]";
        /// Further directories with modules of `master_tops` in Python.
        top_dirs: Vec<String> = "[]";
        /// Further directories with renderers in Python.
        render_dirs: Vec<String> = "[]";
        /// Further directories with utility modules in Python.
        utils_dirs: Vec<String> = "[]";
        /// Further directories with systems of external authentication in Python.
        auth_dirs: Vec<String> = "[]";
        /// Further directories with returners for events in Python.
        returner_dirs: Vec<String> = "[]";
        /// Further directories with engines in Python.
        engines_dirs: Vec<String> = "[]";
        /// Further directories with outputters in Python.
        outputter_dirs: Vec<String> = "[]";
        /// Further directories with drivers of `sdb` in Python.
        sdb_dirs: Vec<String> = "[]";
        /// Engines in Python that run as long as the master: names, or maps of a name to the arguments of its `start`.
        engines: Entries = "[]";
        /// Python files of runners that are not used.
        disable_runners: Vec<String> = "[]";
        /// Python files of wheel modules that are not used.
        disable_wheels: Vec<String> = "[]";
        /// Python files of external pillars that are not used.
        disable_pillars: Vec<String> = "[]";
        /// Python files of tops that are not used.
        disable_tops: Vec<String> = "[]";
        /// Python files of renderers that are not used.
        disable_renders: Vec<String> = "[]";
        /// Python files of utilities that are not used.
        disable_utils: Vec<String> = "[]";
        /// Let `saltutil.sync_*` remove modules from there that the file server no longer has.
        clean_dynamic_modules: bool = "true";
        /// Modules that `saltutil.sync_*` copies: lists of names per kind (`modules`, `states`, ...). A kind without an
        /// entry is copied completely.
        extmod_whitelist: Map = "{}";
        /// Modules that `saltutil.sync_*` does not copy, in the same form.
        extmod_blacklist: Map = "{}";
        /// Repositories for `gitfs`: URLs, or maps of a URL to a list of its options.
        gitfs_remotes: Items = "[]";
        /// Branch, tag or commit used as the environment `base`.
        gitfs_base: String = "master";
        /// Directory of the repositories to serve. Empty: everything.
        gitfs_root: String = "''";
        /// Directory prefix of the files in repositories.
        gitfs_mountpoint: String = "''";
        /// Settings per environment: `ref`, `root` and `mountpoint`.
        gitfs_saltenv: Map = "{}";
        /// Kinds of refs that can be environments: `branch`, `tag`, `sha`; tried in this order.
        gitfs_ref_types: Vec<String> = "[branch, tag, sha]";
        /// Offer only the environments of `gitfs_saltenv` and `base`.
        gitfs_disable_saltenv_mapping: bool = "false";
        /// Globs or expressions of environments to offer. Empty: all.
        gitfs_saltenv_whitelist: Vec<String> = "[]";
        /// Globs or expressions of environments not to offer.
        gitfs_saltenv_blacklist: Vec<String> = "[]";
        /// Branch or tag used for environments that a repository does not have.
        gitfs_fallback: String = "''";
        /// Refspecs to fetch; the targets must be below refs/remotes/origin/ or refs/tags/.
        gitfs_refspecs: Vec<String> = "['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*']";
        /// Seconds between fetches.
        gitfs_update_interval: u64 = "60";
        /// Check HTTPS certificates.
        gitfs_ssl_verify: bool = "true";
        /// User name for HTTP.
        gitfs_user: String = "''";
        /// Password for HTTP.
        gitfs_password: String = "''";
        /// File with the private key for SSH.
        gitfs_privkey: String = "''";
        /// HTTP proxy.
        gitfs_proxy: String = "''";
        /// How top files of several environments are merged: `merge`, `merge_all` or `same`.
        top_file_merging_strategy: String = "merge";
        /// Order of the environments when top files are merged.
        env_order: Vec<String> = "[]";
        /// Environment whose top file is used with the strategy `same`.
        default_top: String = "base";
        /// Renderers for state and pillar files.
        renderer: String = "jinja|yaml";
        /// Renderers that may not be used.
        renderer_blacklist: Vec<String> = "[]";
        /// The only renderers that may be used; empty: all.
        renderer_whitelist: Vec<String> = "[]";
        /// Directories of the pillar, per environment; `__env__` stands for any other environment.
        pillar_roots: Roots = "{base: [/srv/pillar, /srv/spm/pillar]}";
        /// The only pillar environment to use. Empty: all.
        pillarenv: Option<String> = "null";
        /// Use the minion's `saltenv` as pillar environment.
        pillarenv_from_saltenv: bool = "false";
        /// Add the master's options to the pillar, under `master`.
        pillar_opts: bool = "false";
        /// Log the reason why a pillar file could not be rendered, but do not show it to the minion.
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
        /// Cache compiled pillars.
        pillar_cache: bool = "false";
        /// Seconds for which a compiled pillar is cached.
        pillar_cache_ttl: u64 = "3600";
        /// Where to cache it: `disk`, or `memory` (in each worker).
        pillar_cache_backend: String = "disk";
        /// Pillar data to decrypt after compilation: a list of keys, or of maps of a key to its renderer.
        decrypt_pillar: Decrypt = "[]";
        /// Separator between the levels of these keys.
        decrypt_pillar_delimiter: String = "':'";
        /// Renderer for keys that do not name one.
        decrypt_pillar_default: String = "gpg";
        /// Renderers that keys may name.
        decrypt_pillar_renderers: Vec<String> = "[gpg]";
        /// Key directory of the renderer `gpg`. Empty: `gpgkeys` next to the configuration file.
        gpg_keydir: String = "''";
        /// Fail to render a pillar file if `gpg` cannot decrypt part of it, instead of leaving the ciphertext. Empty:
        /// true unless `salt_series` is 3006.
        gpg_decrypt_must_succeed: Option<bool> = "null";
        /// Cache what `gpg` has decrypted, in the memory of each worker.
        gpg_cache: bool = "false";
        /// Seconds for which it is cached.
        gpg_cache_ttl: u64 = "86400";
        /// Branch used by the external pillar `git` as the environment `base`.
        git_pillar_base: String = "master";
        /// Branch of repositories that do not name one.
        git_pillar_branch: String = "master";
        /// Environment for all these branches. Empty: the name of the branch.
        git_pillar_env: String = "''";
        /// Directory of the repository that is the pillar root.
        git_pillar_root: String = "''";
        /// Branch or tag used if a repository lacks the wanted one. Empty: none.
        git_pillar_fallback: String = "''";
        /// Refspecs to fetch.
        git_pillar_refspecs: Vec<String> = "['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*']";
        /// User name for HTTP.
        git_pillar_user: String = "''";
        /// Password for HTTP.
        git_pillar_password: String = "''";
        /// File with the private key for SSH.
        git_pillar_privkey: String = "''";
        /// HTTP proxy.
        git_pillar_proxy: String = "''";
        /// Let pillar files include files of other repositories of the same environment.
        git_pillar_includes: bool = "true";
        /// Seconds between fetches of one repository.
        git_pillar_update_interval: u64 = "60";
        /// Check the certificates of git servers.
        git_pillar_ssl_verify: bool = "true";
        /// Version of pillar answers; 1 is for minions older than those supported here.
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
        /// Jinja settings for templates.
        jinja_env: Map = "{}";
        /// Jinja settings for state files.
        jinja_sls_env: Map = "{}";
        /// Strip space before a Jinja block.
        jinja_lstrip_blocks: bool = "false";
        /// Strip the newline after a Jinja block.
        jinja_trim_blocks: bool = "false";
        /// Sources of states for a minion besides the top file. `ext_nodes` is a command that gets the minion's id.
        master_tops: Map = "{}";
        /// Digest of files, fingerprints and socket names: md5, sha1, sha224, sha256, sha384 or sha512.
        hash_type: String = "sha256";
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
        log_file: String = "/var/log/{product}/master";
        /// Log file of the syndic.
        syndic_log_file: String = "/var/log/{product}/syndic";
        /// Log file of `halite-key`.
        key_logfile: String = "/var/log/{product}/key";
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
        /// Format of log lines on the console and, unless `log_format_logfile` is set, in the log file: `salt` (see
        /// `log_fmt_console` and `log_fmt_logfile`) or `json` (one object per line). Commands at a terminal always use
        /// `salt`.
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
