//! Wheel functions on a directory of their own.

use super::*;
use halite_crypto::{CipherKind, IdentityKey, KeyType};
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_wire::ids::MinionId;
use std::path::Path;

fn config(dir: &Path, more: Map) -> MasterConfig {
    let mut options = halite_wire::map! {
        "root_dir" => dir.to_string_lossy().into_owned(), "log_file" => "/log",
    };
    options.0.extend(more.0);
    let conf = dir.join("etc/halite");
    std::fs::create_dir_all(&conf).unwrap();
    MasterConfig::from_map(options, &conf).unwrap()
}

fn call(config: &MasterConfig, name: &str, args: Vec<Value>) -> Result<Value, RunError> {
    let args = Args {
        positional: args,
        keyword: Map::new(),
    };
    Ok(run(config, name, &args)?.0)
}

#[test]
fn names_are_unique_and_have_docs() {
    let names: Vec<_> = functions().map(|f| f.name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    assert!(functions().all(|f| f.doc.ends_with('.') && f.name.contains('.')));
}

#[test]
fn an_unknown_function_is_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), Map::new());
    let call = Call {
        fun: "no.such".into(),
        args: Args::default(),
        jid: "20261121092637195592".parse().unwrap(),
        user: "root".into(),
    };
    let answer = answer(&config, &call);
    assert_eq!(answer.get("success"), Some(&Value::Bool(false)));
    let text = answer.str("return").unwrap();
    assert!(text.contains("'no.such' is not available."), "{text}");
}

#[test]
fn the_own_pair_has_the_name_that_clients_expect() {
    for (series, name) in [("3008", "here"), ("3006", "master")] {
        let dir = tempfile::tempdir().unwrap();
        let more = halite_wire::map! {"id" => "here_master", "salt_series" => series};
        let config = config(dir.path(), more);
        std::fs::create_dir_all(&config.pki_dir).unwrap();
        for file in ["master.pem", "master.pub", "master_sign.pub"] {
            std::fs::write(config.pki_dir.join(file), file).unwrap();
        }
        let names = ["pem", "pub"].map(|kind| format!("{name}.{kind}"));
        let all = call(&config, "key.list_all", vec![]).unwrap();
        let all = all.as_map().unwrap().get("local").unwrap().str_list();
        assert_eq!(all[..2], names);
        assert_eq!(all[2], "master_sign.pub");
        let fingers = call(&config, "key.finger", vec!["*".into()]).unwrap();
        let fingers = fingers.as_map().unwrap().get("local").unwrap();
        assert!(fingers.as_map().unwrap().contains(&names[1]));
        let text = call(&config, "key.master_key_str", vec![]).unwrap();
        let text = text
            .as_map()
            .unwrap()
            .get("local")
            .unwrap()
            .as_map()
            .unwrap();
        assert_eq!(text.str(&names[1]), Some("master.pub"));
    }
}

#[test]
fn pillar_is_written_below_its_root_only() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("pillar");
    let roots = halite_wire::map! {"base" => vec![root.to_string_lossy().into_owned()]};
    let config = config(dir.path(), halite_wire::map! {"pillar_roots" => roots});
    let write = |path: &str| {
        let args = vec!["x: 1\n".into(), path.into()];
        call(&config, "pillar_roots.write", args)
    };
    let wrote = write("a/b.sls").unwrap();
    let full = root.join("a/b.sls");
    assert!(wrote.is_str(&format!("Wrote data to file {}", full.display())));
    assert_eq!(std::fs::read(&full).unwrap(), b"x: 1\n");
    assert!(write("../evil").unwrap().is_str("Invalid path: ../evil"));
    let outside = dir.path().join("evil");
    let absolute = write(&outside.to_string_lossy()).unwrap();
    assert!(absolute.as_str().unwrap().contains("is not relative"));
    std::os::unix::fs::symlink(dir.path(), root.join("out")).unwrap();
    assert!(write("out/evil").is_err());
    assert!(!outside.exists());
    let read = call(&config, "pillar_roots.read", vec!["a/b.sls".into()]).unwrap();
    let expected = halite_wire::map! {full.to_string_lossy().into_owned() => "x: 1\n"};
    assert_eq!(read, Value::from(vec![Value::Map(expected)]));
    let read = call(&config, "pillar_roots.read", vec!["../log".into()]).unwrap();
    assert_eq!(read, Value::from(Vec::<Value>::new()));
}

#[test]
fn configuration_files_have_plain_names() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), Map::new());
    let write = |name: &str| {
        let content = Value::Map(halite_wire::map! {"timeout" => 7});
        call(&config, "config.update_config", vec![name.into(), content]).unwrap()
    };
    assert!(write("web").is_str("Wrote web.conf"));
    let path = dir.path().join("etc/halite/master.d/web.conf");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "timeout: 7\n");
    for bad in ["../x", "/etc/x", "a/b", "", ".x"] {
        assert!(write(bad).is_str("Invalid path"), "{bad:?}");
    }
    let set = |key: &str, value: Value| call(&config, "config.apply", vec![key.into(), value]);
    set("timeout", 9.into()).unwrap();
    assert!(set("worker_threads", 0.into()).is_err());
    let text = std::fs::read_to_string(dir.path().join("etc/halite/master")).unwrap();
    assert_eq!(text, "timeout: 9\n");
}

#[test]
fn keys_change_their_state() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), halite_wire::map! {"salt_series" => "3006"});
    let pair = call(&config, "key.gen_accept", vec!["web1".into()]).unwrap();
    assert!(
        pair.as_map()
            .unwrap()
            .str("pub")
            .unwrap()
            .contains("PUBLIC KEY")
    );
    let again = call(&config, "key.gen_accept", vec!["web1".into()]).unwrap();
    assert_eq!(again, Value::Map(Map::new()), "a key that is there stays");
    let ids = |ids: &[&str]| Value::from(ids.iter().map(|i| (*i).into()).collect::<Vec<Value>>());
    let listed = call(&config, "key.list", vec!["acc".into()]).unwrap();
    assert_eq!(
        listed,
        Value::Map(halite_wire::map! {"minions" => ids(&["web1"])})
    );
    let args = |positional: Vec<Value>| Args {
        positional,
        keyword: Map::new(),
    };
    let run = |config: &MasterConfig, name: &str, args: &Args| {
        super::run(config, name, args).map(|(value, _)| value)
    };
    let none = run(&config, "key.reject", &args(vec!["web*".into()])).unwrap();
    assert_eq!(
        none,
        Value::Map(halite_wire::map! {"minions" => ids(&["web1"])})
    );
    let gone = run(
        &config,
        "key.reject",
        &args(vec!["web*".into(), true.into()]),
    )
    .unwrap();
    assert_eq!(
        gone,
        Value::Map(halite_wire::map! {"minions_rejected" => ids(&["web1"])})
    );
    let chosen = Value::Map(halite_wire::map! {"minions_rejected" => ids(&["web1"])});
    let back = args(vec![chosen.clone(), true.into()]);
    let back = run(&config, "key.accept_dict", &back).unwrap();
    assert_eq!(
        back,
        Value::Map(halite_wire::map! {"minions" => ids(&["web1"])})
    );
    let gone = run(&config, "key.delete", &args(vec!["*".into()])).unwrap();
    assert_eq!(gone, Value::Map(Map::new()));
    for bad in ["/tmp", "../..", "minions", "minions_pre/x"] {
        let made = call(&config, "key.gen_keys", vec![bad.into()]);
        assert!(made.unwrap_err().to_string().contains("not below pki_dir"));
    }
}

#[test]
fn new_keys_are_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), halite_wire::map! {"salt_series" => "3006"});
    let stores = Stores::open(&config);
    let id: MinionId = "web1".parse().unwrap();
    let pair = |args: Vec<Value>| {
        let pair = call(&config, "key.gen_accept", args).unwrap();
        IdentityKey::from_pem(pair.as_map().unwrap().str("priv").unwrap()).unwrap()
    };
    std::fs::create_dir_all(config.cachedir.join("sessions")).unwrap();
    let nil = || Value::Nil;
    let kind = pair(vec!["web1".into(), nil(), nil(), "ed25519".into()]).kind();
    assert_eq!(kind, KeyType::Ed25519);
    let session = stores
        .sessions
        .get_or_create(CipherKind::Salt, &id, "")
        .unwrap();
    assert_eq!(
        pair(vec!["web1".into(), nil(), true.into()]).kind(),
        KeyType::Rsa
    );
    let next = stores
        .sessions
        .get_or_create(CipherKind::Salt, &id, "")
        .unwrap();
    assert_ne!(session.as_str(), next.as_str());
    for bad in [Value::from("dsa"), true.into(), Vec::<String>::new().into()] {
        let made = call(&config, "key.gen", vec![nil(), nil(), bad]);
        assert!(made.unwrap_err().to_string().contains("key_type"));
    }
}

#[test]
fn only_the_masters_key_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), halite_wire::map! {"salt_series" => "3006"});
    let stores = Stores::open(&config);
    call(&config, "key.gen_keys", vec![Value::Nil, "master".into()]).unwrap();
    let stranger = IdentityKey::generate(KeyType::Ed25519, 0).unwrap();
    let id = "evil".parse().unwrap();
    let keys = &stores.keys;
    keys.put(KeyState::Pending, &id, &stranger.public().to_pem())
        .unwrap();
    let sign = |private: &str, public: &str, place: &str| {
        let args = vec![private.into(), public.into(), place.into(), true.into()];
        call(&config, "key.gen_signature", args)
    };
    for (private, public, place) in [
        ("", "minions_pre/evil", ""),
        ("master.pem", "", ""),
        ("", "", "minions"),
    ] {
        assert!(sign(private, public, place).is_err(), "{private} {public}");
    }
    assert_eq!(sign("", "master.pub", "").unwrap(), true.into());
}

#[test]
fn a_new_private_key_is_for_its_caller() {
    let pair = || Value::Map(halite_wire::map! {"priv" => "secret", "pub" => "p"});
    let told = key::without_private_key("key.gen_accept", pair());
    let want = Value::Map(halite_wire::map! {"priv" => "***", "pub" => "p"});
    assert_eq!(told, want);
    assert_eq!(key::without_private_key("own.fun", pair()), pair());
}
