//! Checked against what stock Salt makes of the same files (`tests/data/config_cases.json`).

use super::*;
use halite_wire::map;
use halite_wire::{Map, Value, yaml};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A configuration directory called `name` with these files.
fn dir(name: &str, files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join(name);
    std::fs::create_dir(&dir).unwrap();
    for (file, text) in files {
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (top, dir)
}

fn master(text: &str) -> Result<MasterConfig, ConfigError> {
    let (_top, dir) = dir("conf", &[("master", text)]);
    load_master(&dir)
}

fn minion(text: &str) -> Result<MinionConfig, ConfigError> {
    let (_top, dir) = dir("conf", &[("minion", text)]);
    load_minion(&dir)
}

fn data() -> Json {
    serde_json::from_str(include_str!("../../tests/data/config_cases.json")).unwrap()
}

/// Reads back the encoding of `tests/data/make_yaml_cases.py`.
fn decode(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::Array(items.iter().map(decode).collect()),
        Json::Object(o) if o.contains_key("m") => {
            let pairs = o["m"].as_array().unwrap().iter();
            Value::Map(
                pairs
                    .map(|p| (decode(&p[0]), decode(&p[1])))
                    .collect::<Map>(),
            )
        }
        Json::Object(o) => Value::Float(o["f"].as_str().unwrap().parse().unwrap()),
        plain => serde_json::from_value(plain.clone()).unwrap(),
    }
}

#[test]
fn files_give_the_same_options_as_in_salt() {
    for case in data()["files"].as_array().unwrap() {
        let files: Vec<(String, String)> = case[1]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(n, t)| (n.as_str(), t.as_str()))
            .collect();
        let (_top, dir) = dir("salt", &files);
        let mut got = match case[0].as_str().unwrap() {
            "master" => {
                let c = load_master(&dir).unwrap_or_else(|e| panic!("{case}: {e}"));
                let mut map = c.as_map();
                map.set("worker_pools", pools_map(&c));
                map
            }
            _ => load_minion(&dir)
                .unwrap_or_else(|e| panic!("{case}: {e}"))
                .as_map(),
        };
        let known = |name: &str| {
            let all = MASTER_OPTIONS.iter().chain(MINION_OPTIONS);
            name == "conf_file" || all.into_iter().any(|o| o.name == name)
        };
        // The cases have more options than are implemented here.
        for (name, wanted) in case[2]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(n, _)| known(n))
        {
            let found = got.remove(name).unwrap_or_default();
            assert_eq!(found, decode(wanted), "{name} of {}", case[1]);
        }
    }
}

fn pools_map(c: &MasterConfig) -> Map {
    let pools = c.pools().into_iter();
    pools
        .map(|p| {
            (
                p.name,
                map! {"worker_count" => p.worker_count, "commands" => p.commands},
            )
        })
        .collect()
}

/// Options whose default differs from Salt's, with the reason.
const OWN_DEFAULTS: [&str; 8] = [
    // A list of one-entry maps with Salt; read as one map here.
    "gitfs_saltenv",
    // Salt fills these in after the defaults: 0 if the file does not set them.
    "ipc_write_buffer",
    // Text or a list in Salt; always a list here.
    "master",
    // Built from the configuration directory.
    "conf_file",
    // Hard-coded in Salt's master as a number of minutes.
    "autosign_timeout",
    // False in 3006, true since then; if empty, it follows `salt_series`.
    "gpg_decrypt_must_succeed",
    // Salt's default is a name that no host has; without a master the syndic here says so and exits.
    "syndic_master",
    "id",
];

#[test]
fn defaults_are_those_of_salt() {
    let data = data();
    for (role, table) in [("master", MASTER_OPTIONS), ("minion", MINION_OPTIONS)] {
        let mut compared = 0;
        for option in table.iter().filter(|o| !OWN_DEFAULTS.contains(&o.name)) {
            let Some(salt) = data["defaults"][role].get(option.name) else {
                continue;
            };
            let text = option.default.replace("{product}", "salt");
            assert_eq!(
                yaml::parse(&text),
                Ok(decode(salt)),
                "{role}: {}",
                option.name
            );
            compared += 1;
        }
        assert!(compared > 50, "{role}: {compared}");
    }
}

#[test]
fn a_missing_file_means_defaults_and_a_warning() {
    let (_top, dir) = dir("halite", &[]);
    let c = load_master(&dir).unwrap();
    assert_eq!(c.warnings.len(), 1, "{:?}", c.warnings);
    assert!(c.warnings[0].contains("no configuration file"));
    assert_eq!(c.conf_file, dir.join("master"));
    assert_eq!(c.sock_dir, PathBuf::from("/var/run/halite/master"));
    assert_eq!(c.pki_dir, PathBuf::from("/etc/halite/pki/master"));
    assert_eq!(c.cachedir, PathBuf::from("/var/cache/halite/master"));
    assert_eq!(c.pidfile, PathBuf::from("/var/run/halite-master.pid"));
    assert_eq!(c.log_file, "/var/log/halite/master");
    assert_eq!(c.publish_port, 4505);
    assert_eq!(
        c.file_roots.get("base").unwrap(),
        ["/srv/salt", "/srv/spm/salt"]
    );
    assert_eq!(c.salt_series, SaltSeries::S3008);
    assert_eq!(c.job_cache_compat, JobCacheCompat::Load);
    assert!(c.id.ends_with("_master"));
}

#[test]
fn a_file_for_stock_salt_means_stock_tools() {
    for (text, compat) in [
        ("timeout: 3", JobCacheCompat::Load),
        ("own_option: 1", JobCacheCompat::Load),
        ("queue_dirs: [slack]", JobCacheCompat::Full),
        (
            "queue_dirs: [slack]\njob_cache_compat: none",
            JobCacheCompat::None,
        ),
    ] {
        let (_top, dir) = dir("conf", &[("master", text)]);
        let c = load_master(&dir).unwrap();
        assert_eq!(c.job_cache_compat, compat, "{text}");
    }
}

#[test]
fn a_directory_called_salt_has_the_paths_of_salt() {
    let (_top, dir) = dir("salt", &[("minion", "root_dir: /r\nid: m")]);
    let c = load_minion(&dir).unwrap();
    assert_eq!(c.flavour, Flavour::Salt);
    assert_eq!(c.pki_dir, PathBuf::from("/r/etc/salt/pki/minion"));
    assert_eq!(c.id_file(), PathBuf::from("/r/etc/salt/minion_id"));
}

#[test]
fn errors_name_file_option_value_and_type() {
    let (_top, dir) = dir(
        "conf",
        &[
            ("master", "timeout: 3"),
            ("master.d/x.conf", "ret_port: many"),
        ],
    );
    let error = load_master(&dir).unwrap_err().to_string();
    let path = dir.join("master.d/x.conf");
    assert_eq!(
        error,
        format!(
            "{}: the option 'ret_port' is the text 'many', but must be a port number from 0 to 65535",
            path.display()
        )
    );
    for (text, part) in [
        ("ret_port: 70000", "the number 70000"),
        ("timeout: -1", "a whole number from 0"),
        ("show_jid: [1]", "the list [1], but must be true or false"),
        ("interface: {a: 1}", "the map {a: 1}, but must be text"),
        ("nodegroups: [1]", "must be a map"),
        ("hash_type: crc", "one of md5"),
        ("publish_signing_algorithm: x", "PKCS1v15-SHA224"),
        ("salt_series: 3005", "3006, 3007 or 3008"),
        ("event_bus_framing: x", "auto, bare or prefixed"),
        ("worker_threads: 0", "from 1"),
        ("metrics_address: nowhere", "an address and a port"),
        ("metrics_address: ':4507'", "an address and a port"),
        ("metrics_address: '::1:70000'", "an address and a port"),
        ("include: {a: 1}", "path pattern"),
        ("- a", "option: value"),
        ("a: 1\na: 2", "line 2, column 1"),
    ] {
        let error = master(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(minion("encryption_algorithm: x").is_err());
    assert!(minion("file_client: x").is_err());
}

#[test]
fn broken_and_endless_includes_are_errors() {
    let (_top, broken) = dir("conf", &[("master.d/x.conf", "a: [")]);
    assert!(
        load_master(&broken)
            .unwrap_err()
            .to_string()
            .contains("x.conf")
    );
    let (_top, endless) = dir(
        "conf",
        &[("master", "include: again"), ("again", "include: again")],
    );
    let error = load_master(&endless).unwrap_err().to_string();
    assert!(error.contains("includes itself"), "{error}");
}

#[test]
fn tolerated_values_are_warned_about() {
    let c =
        master("ping_on_rotate: 1\ntimeout: 2.5\nret_port: '4600'\nuser:\nkeep_jobs: 2").unwrap();
    assert!(c.ping_on_rotate);
    assert_eq!((c.timeout, c.ret_port, c.user.as_str()), (2, 4600, "root"));
    assert_eq!(c.keep_jobs_seconds, 7200);
    let warnings = c.warnings.join("\n");
    for part in [
        "'ping_on_rotate': write true",
        "fraction",
        "'user': has no value",
        "keep_jobs_seconds",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    let c = master("file_roots: {dev: /d}").unwrap();
    assert!(c.warnings[0].contains("'/d' as a list"), "{:?}", c.warnings);
    let c = master("log_level: Loud\nlog_level_logfile: DEBUG").unwrap();
    assert_eq!(c.log_level, "warning");
    assert_eq!(c.log_level_logfile.as_deref(), Some("debug"));
    assert!(c.warnings[0].contains("Loud"));
}

#[test]
fn other_options_are_kept_and_named() {
    let c =
        master("queue_dirs: [x]\nworker_thread: 3\nmy_own: {a: 1}\ninclude: none.conf").unwrap();
    let warning = |part: &str| {
        c.warnings
            .iter()
            .find(|w| w.contains(part))
            .cloned()
            .unwrap()
    };
    assert!(warning("'queue_dirs'").contains("not implemented here"));
    assert!(warning("'worker_thread'").contains("is 'worker_threads' meant?"));
    assert!(warning("'my_own'").contains("unknown"));
    assert!(warning("none.conf").contains("matches no file"));
    assert_eq!(c.extra.len(), 3);
    let all = c.as_map();
    assert_eq!(all.get("my_own"), Some(&Value::Map(map! {"a" => 1})));
    assert_eq!(all.int("worker_threads"), Some(5));
    assert_eq!(all.str("__role"), Some("master"));
}

#[test]
fn worker_pools_are_checked() {
    let c = master(
        "worker_pools: {auth: {worker_count: 1, commands: [_auth]}, rest: {worker_count: 4, commands: ['*']}}",
    );
    let pools = c.unwrap().pools();
    assert_eq!((pools[0].name.as_str(), pools[0].worker_count), ("auth", 1));
    assert_eq!(pools[1].commands, ["*"]);
    let off =
        master("worker_pools_enabled: false\nworker_threads: 2\nworker_pools: {x: 1}").unwrap();
    assert_eq!(off.pools().len(), 1);
    assert_eq!(off.pools()[0].worker_count, 2);
    for (text, part) in [
        (
            "{a: {worker_count: 1, commands: [x]}}",
            "has the command '*'",
        ),
        ("{a: {worker_count: 0, commands: ['*']}}", "from 1"),
        ("{../a: {worker_count: 1, commands: ['*']}}", "without '/'"),
        (
            "{a: {worker_count: 1, commands: ['*']}, b: {worker_count: 1, commands: ['*']}}",
            "'*' is in two",
        ),
    ] {
        let error = master(&format!("worker_pools: {text}"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn long_socket_paths_are_refused() {
    let long = "d".repeat(90);
    let long = master(&format!("root_dir: /{long}\nsock_dir: /s\ncachedir: /c")).unwrap();
    let error = long.check_sockets().unwrap_err();
    assert!(error.to_string().contains("sock_dir"), "{error}");
    let short = "d".repeat(70);
    let short = master(&format!("root_dir: /{short}\nsock_dir: /s\ncachedir: /c")).unwrap();
    assert!(short.check_sockets().is_ok());
}

#[test]
fn the_bus_is_framed_as_the_tools_of_the_series_expect() {
    let prefixed = |text: &str| master(text).unwrap().bus_prefixed();
    assert!(!prefixed("{}"));
    assert!(prefixed("salt_series: 3006"));
    assert!(!prefixed("salt_series: '3007'"));
    assert!(prefixed("event_bus_framing: prefixed"));
    assert!(!prefixed("salt_series: 3006\nevent_bus_framing: bare"));
}

#[test]
fn a_generated_id_is_written_down_once() {
    let (_top, dir) = dir("conf", &[("minion", "append_domain: x.org")]);
    let first = load_minion(&dir).unwrap();
    assert!(first.id.ends_with("x.org"));
    let set = load_minion(&dir).unwrap();
    set.store_id().unwrap();
    assert_eq!(
        std::fs::read_to_string(dir.join("minion_id")).unwrap(),
        set.id
    );
    std::fs::write(dir.join("minion_id"), "kept.x.org\n").unwrap();
    assert_eq!(load_minion(&dir).unwrap().id, "kept.x.org");
    set.store_id().unwrap();
    assert_eq!(load_minion(&dir).unwrap().id, "kept.x.org");
    std::fs::write(dir.join("minion"), "minion_id_caching: false").unwrap();
    assert_ne!(load_minion(&dir).unwrap().id, "kept.x.org");
}

#[test]
fn a_map_is_as_good_as_a_file() {
    let options = map! {"root_dir" => "/r", "id" => "m1", "ret_port" => 1, "auto_accept" => true};
    let c = MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap();
    assert_eq!(c.sock_dir, PathBuf::from("/r/var/run/halite/master"));
    assert_eq!((c.ret_port, c.auto_accept, c.id.as_str()), (1, true, "m1"));
    assert!(c.warnings.is_empty(), "{:?}", c.warnings);
    let m = MinionConfig::from_map(map! {"id" => "m"}, Path::new("/etc/salt")).unwrap();
    assert_eq!(m.master, ["salt"]);
}

#[test]
fn the_sample_file_holds_the_defaults() {
    for role in [
        Role::Master,
        Role::Minion,
        Role::FederationBroker,
        Role::Runtime,
    ] {
        let sample = sample_config(role);
        let name = role.name();
        let (_top, plain) = dir("halite", &[(name, sample.as_str())]);
        let live: String = sample
            .lines()
            .map(|l| match l.strip_prefix('#') {
                Some(option) if !option.starts_with([' ', '#']) => format!("{option}\n"),
                _ => format!("{l}\n"),
            })
            .collect();
        let (_top2, changed) = dir("halite", &[(name, live.as_str())]);
        let options = |dir: &Path| {
            let (mut map, warnings) = match role {
                Role::Master => load_master(dir).map(|c| (c.as_map(), c.warnings)).unwrap(),
                Role::Minion => load_minion(dir).map(|c| (c.as_map(), c.warnings)).unwrap(),
                Role::FederationBroker => load_federation_broker(dir)
                    .map(|c| (c.as_map(), c.warnings))
                    .unwrap(),
                Role::Runtime => load_runtime(dir).map(|c| (c.as_map(), c.warnings)).unwrap(),
            };
            assert!(warnings.is_empty(), "{warnings:?}");
            map.remove("conf_file");
            map.remove("config_dir");
            map
        };
        assert_eq!(options(&plain), options(&changed));
        assert!(sample.lines().all(|l| l.len() <= 120), "{sample}");
    }
}

#[test]
fn the_table_in_markdown_has_every_option() {
    let text = options_markdown(Role::Master);
    for option in MASTER_OPTIONS {
        assert!(
            text.contains(&format!("| `{}` |", option.name)),
            "{}",
            option.name
        );
    }
    assert!(text.contains("jinja\\|yaml"));
    assert!(text.contains("## Keys and security"));
}

#[test]
fn options_are_named_once() {
    for table in [MASTER_OPTIONS, MINION_OPTIONS, RUNTIME_OPTIONS] {
        for (i, option) in table.iter().enumerate() {
            assert!(
                !table[..i].iter().any(|o| o.name == option.name),
                "{}",
                option.name
            );
            assert!(option.help.trim().ends_with('.'), "{}", option.name);
        }
    }
}

#[test]
fn a_minion_says_that_its_jobs_are_processes() {
    let dir = tempfile::tempdir().unwrap();
    let warnings = |value: bool| {
        let options = map! {"id" => "m1", "multiprocessing" => value};
        MinionConfig::from_map(options, dir.path())
            .unwrap()
            .warnings
    };
    assert!(warnings(true).is_empty());
    let [only] = warnings(false).try_into().unwrap();
    assert!(only.contains("'multiprocessing'") && only.contains("each job is always a process"));
}
