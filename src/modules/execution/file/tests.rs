//! Tests the functions together, without stock; `tests/modules/calls/file.yaml` compares them with stock.

use super::super::{Context, call, invoke, with_call};
use super::*;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::sync::Arc;

struct Place {
    dir: tempfile::TempDir,
    ctx: Context,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let ctx = Context {
            id: "m".into(),
            grains: Arc::new(map! {"os" => "Debian"}),
            cachedir: dir.path().join("cache"),
            ..Context::default()
        };
        Place { dir, ctx }
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.at(name), text).unwrap();
        self.at(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    fn call(&self, fun: &str, args: &[&str], kwargs: Map) -> Value {
        let args = args.iter().map(|a| Value::from(*a)).collect();
        match invoke(&self.ctx, fun, args, kwargs) {
            Ok(value) => value,
            Err(e) => format!("{e:?}").into(),
        }
    }
}

#[test]
fn editing() {
    let place = Place::new();
    let a = place.write("a", "one\ntwo\n");
    let diff = place.call("file.replace", &[&a, "t(w)o", "<\\1>"], Map::new());
    assert_eq!(
        diff,
        "--- \n+++ \n@@ -1,2 +1,2 @@\n one\n-two\n+<w>\n".into()
    );
    assert_eq!(
        (place.read("a"), place.read("a.bak")),
        ("one\n<w>\n".into(), "one\ntwo\n".into())
    );
    let changed = place.call(
        "file.line",
        &[&a, "three"],
        map! {"mode" => "ensure", "after" => "one", "show_changes" => false},
    );
    assert_eq!(
        (changed, place.read("a")),
        (true.into(), "one\nthree\n<w>\n".into())
    );
    place.call(
        "file.blockreplace",
        &[&a, "# A", "# B", "block\n"],
        map! {"append_if_not_found" => true},
    );
    place.call("file.comment", &[&a, "^three"], Map::new());
    assert_eq!(place.read("a"), "one\n#three\n<w>\n# A\nblock\n# B\n");
    assert_eq!(
        place.call("file.search", &[&a, "^#th"], Map::new()),
        true.into()
    );
}

#[test]
fn bytes_that_are_not_text_stay_as_they_are() {
    let place = Place::new();
    let path = place.at("a");
    std::fs::write(&path, b"caf\xe9 one\ncaf\xc3\xa9 two\n").unwrap();
    place.call(
        "file.replace",
        &[&path, "caf.? ", "tea "],
        map! {"backup" => false},
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"tea one\ncaf\xc3\xa9 two\n");
    place.call(
        "file.replace",
        &[&path, "caf\u{e9}", "th\u{e9}"],
        map! {"backup" => false},
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"tea one\nth\xc3\xa9 two\n");
}

#[test]
fn a_template_becomes_a_file() {
    let place = Place::new();
    let source = place.write("t", "{{ who }} on {{ grains.os }}\n");
    let get = GetManaged {
        name: place.at("f"),
        template: "jinja".into(),
        source: source.as_str().into(),
        saltenv: "base".into(),
        context: map! {"who" => "Ann"}.into(),
        ..GetManaged::default()
    };
    let mut seen = None;
    with_call(&place.ctx, |call| {
        let found = get_managed(call, &get).unwrap();
        assert_eq!(found.comment, "");
        let request = ManageArgs {
            name: get.name.clone(),
            sfn: found.sfn.clone(),
            source: get.source.clone(),
            source_sum: found.sum,
            saltenv: "base".into(),
            show_changes: true,
            skip_verify: true,
            ..ManageArgs::default()
        };
        seen = Some(manage_file(call, &request, None).unwrap());
        assert!(!paths::exists(&found.sfn));
    });
    let ret = seen.unwrap();
    let changes = ret.get("changes").and_then(Value::as_map).unwrap();
    assert_eq!(changes.str("diff"), Some("New file"));
    assert_eq!(ret.get("result"), Some(&true.into()));
    assert_eq!(place.read("f"), "Ann on Debian\n");
    let checked = CheckManaged {
        get,
        ..CheckManaged::default()
    };
    with_call(&place.ctx, |call| {
        let changes = check_managed_changes(call, &checked).unwrap().unwrap();
        assert_eq!(changes, Changes::default());
    });
}

#[test]
fn errors_are_those_of_stock() {
    let place = Place::new();
    let none = place.at("none");
    let said = |fun: &str, args: &[&str]| {
        let args: Vec<Value> = args.iter().map(|a| Value::from(*a)).collect();
        let outcome = call(&place.ctx, fun, &args);
        let text = outcome.ret.as_str().unwrap_or_default().to_owned();
        text.replace(&none, "NONE")
            .trim_end()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        said("file.read", &[&none]),
        "FileNotFoundError: [Errno 2] No such file or directory: 'NONE'"
    );
    assert_eq!(said("file.stats", &[&none]), "ERROR: Path not found: NONE");
    assert_eq!(
        said("file.replace", &[&none, "a", "b"]),
        "ERROR executing 'file.replace': File not found: NONE"
    );
    assert_eq!(
        said("file.get_hash", &["/dev/null", "crc"]),
        "ValueError: Invalid hash type: crc"
    );
}

#[test]
fn backups_do_not_follow_links() {
    let place = Place::new();
    let a = place.write("a", "one\n");
    let victim = place.write("victim", "kept");
    for (fun, args) in [
        ("file.blockreplace", vec![a.as_str(), "# A", "# B", "x"]),
        ("file.psed", vec![a.as_str(), "one", "two"]),
        ("file.replace", vec![a.as_str(), "(one|two)", "three"]),
    ] {
        let _ = std::fs::remove_file(place.at("a.bak"));
        std::os::unix::fs::symlink(&victim, place.at("a.bak")).unwrap();
        let how = match fun {
            "file.blockreplace" => map! {"append_if_not_found" => true, "backup" => ".bak"},
            _ => Map::new(),
        };
        place.call(fun, &args, how);
        assert_eq!(place.read("victim"), "kept", "{fun}");
        let made = std::fs::symlink_metadata(place.at("a.bak")).unwrap();
        assert!(made.is_file(), "{fun}");
    }
    std::os::unix::fs::symlink(&victim, place.at("aside")).unwrap();
    os::copy_aside(&a, &place.at("aside")).unwrap();
    assert_eq!(place.read("victim"), "kept");
    assert_eq!(place.read("aside"), place.read("a"));
    assert!(os::copy_aside(&a, &a).is_err());
}

#[test]
fn links_of_others_lead_root_nowhere() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root changes owners");
        return;
    }
    let place = Place::new();
    for name in ["home", "secret"] {
        std::fs::create_dir(place.at(name)).unwrap();
    }
    place.write("secret/f", "text");
    std::os::unix::fs::symlink("../secret", place.at("home/link")).unwrap();
    for name in ["home", "home/link"] {
        std::os::unix::fs::lchown(place.at(name), Some(65_530), None).unwrap();
    }
    let through = place.at("home/link/f");
    let new = place.at("home/link/new");
    for (fun, args) in [
        ("file.chown", vec![through.as_str(), "65530", "65530"]),
        ("file.set_mode", vec![&through, "0666"]),
        ("file.write", vec![&through, "mine"]),
        ("file.append", vec![&through, "mine"]),
        ("file.touch", vec![&new]),
        ("file.mkdir", vec![&new]),
        ("file.symlink", vec!["/etc", &new]),
        ("file.copy", vec!["/etc/hostname", &new]),
        ("file.rename", vec![&through, &new]),
        ("file.remove", vec![&through]),
        ("file.remove", vec![&place.at("home/link/")]),
        (
            "file.check_perms",
            vec![&through, "{}", "65530", "0", "0666"],
        ),
    ] {
        let answer = crate::python::str(&place.call(fun, &args, Map::new()));
        let refused = answer.contains("of the account 65530") || answer.contains("Could not");
        assert!(refused || fun == "file.set_mode", "{fun}: {answer}");
    }
    let found = std::fs::read_dir(place.at("secret")).unwrap().count();
    let file = Stats::read(&place.at("secret/f"), true).unwrap();
    assert_eq!((found, file.uid), (1, 0));
    assert_eq!(
        (place.read("secret/f"), file.mode.as_str()),
        ("text".into(), "0644")
    );
    // Its owner's link itself is the account's.
    assert_eq!(
        place.call("file.remove", &[&place.at("home/link")], Map::new()),
        true.into()
    );
}
