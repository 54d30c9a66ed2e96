use super::*;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A file server over a small tree, with further options.
struct Fixture {
    dir: tempfile::TempDir,
    server: FileServer,
}

fn server(options: Map) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("base");
    std::fs::create_dir_all(root.join("sub/empty")).unwrap();
    std::fs::create_dir_all(dir.path().join("two")).unwrap();
    std::fs::create_dir_all(dir.path().join("envs/prod/x")).unwrap();
    std::fs::write(root.join("a"), "alpha").unwrap();
    std::fs::write(root.join("sub/b?c"), "question").unwrap();
    std::fs::write(root.join("sub/skip.bak"), "no").unwrap();
    std::fs::write(dir.path().join("two/a"), "second").unwrap();
    std::fs::write(dir.path().join("envs/prod/x/f"), "prod").unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    symlink("a", root.join("in")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("sub", root.join("dirlink")).unwrap();
    symlink(".", root.join("sub/loop")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let mut all = halite_wire::map! {
        "cachedir" => path("cache"), "sock_dir" => "/s", "root_dir" => "/",
        "file_roots" => halite_wire::map! {
            "base" => vec![path("base"), path("two")], "empty" => Vec::<Value>::new(),
            "__env__" => vec![path("envs/__env__")],
        },
        "file_ignore_glob" => "*.bak", "file_buffer_size" => 4,
    };
    for (key, value) in options.0 {
        all.set(key.as_str().unwrap(), value);
    }
    let config = MasterConfig::from_map(all, dir.path()).unwrap();
    let server = FileServer::new(&(&config).into());
    Fixture { dir, server }
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn find(&mut self, path: &str, env: &str) -> Option<String> {
        let answer = self
            .server
            .find(&halite_wire::map! {"path" => path, "saltenv" => env});
        let found = answer.as_map()?.str("path")?.to_owned();
        (!found.is_empty()).then_some(found)
    }

    fn serve(&mut self, path: &str, loc: i64) -> Map {
        let load = halite_wire::map! {"path" => path, "saltenv" => "base", "loc" => loc};
        self.server.serve(&load).unwrap().into_map().unwrap()
    }

    fn list(&mut self, env: &str, kind: FileListKind) -> Vec<String> {
        let load = halite_wire::map! {"saltenv" => env, "prefix" => ""};
        self.server.list(&load, kind).str_list()
    }
}

#[test]
fn the_first_root_wins_and_index_picks() {
    let mut f = server(Map::new());
    let base = f.path("base/a").to_string_lossy().into_owned();
    let two = f.path("two/a").to_string_lossy().into_owned();
    assert_eq!(f.find("a", "base"), Some(base.clone()));
    assert_eq!(f.find("a?index=1", "base"), Some(two.clone()));
    assert_eq!(f.find("a?index=-1", "base"), Some(two));
    assert_eq!(f.find("a?index=7", "base"), None);
    assert_eq!(f.find("a?index=x", "base"), None);
    assert_eq!(f.find("a?saltenv=empty", "base"), None);
    assert_eq!(f.find("a?saltenv=base", "empty"), Some(base));
    assert!(f.find("|sub/b?c", "base").is_some());
    assert_eq!(f.find("sub/b?c", "base"), None);
    assert_eq!(f.find("sub/skip.bak", "base"), None);
    assert_eq!(f.find("sub", "base"), None);
}

#[test]
fn any_environment_has_its_own_directory_only() {
    let mut f = server(Map::new());
    assert!(f.find("x/f", "prod").is_some());
    for env in [
        "",
        ".",
        "..",
        "../base",
        "prod/..",
        "prod/../../base",
        "/",
        "\0",
        "./prod",
        "prod/",
    ] {
        assert_eq!(f.find("a", env), None, "{env:?}");
        assert_eq!(f.find("x/f", env), None, "{env:?}");
        assert_eq!(f.list(env, FileListKind::Files), [""; 0], "{env:?}");
    }
    assert_eq!(f.list("prod", FileListKind::Files), ["x/f"]);
    assert_eq!(f.list("made-up", FileListKind::Files), [""; 0]);
    assert!(!f.path("cache/file_lists/roots/made-up.p").exists());
    assert_eq!(f.server.environments(), ["__env__", "base", "empty"]);
}

#[test]
fn links_are_listed_as_by_stock() {
    let mut f = server(Map::new());
    let files = ["a", "dangling", "dirlink/b?c", "in", "out", "sub/b?c"];
    assert_eq!(f.list("base", FileListKind::Files), files);
    let dirs = [
        "dirlink",
        "dirlink/empty",
        "dirlink/loop",
        "sub",
        "sub/empty",
        "sub/loop",
    ];
    assert_eq!(f.list("base", FileListKind::Dirs), dirs);
    assert_eq!(
        f.list("base", FileListKind::EmptyDirs),
        ["dirlink/empty", "sub/empty"]
    );
    let links = f
        .server
        .symlinks(&halite_wire::map! {"saltenv" => "base", "prefix" => "d"});
    let links: Vec<_> = links
        .as_map()
        .unwrap()
        .iter()
        .map(|(k, _)| k.as_str().unwrap())
        .collect();
    assert_eq!(links, ["dangling", "dirlink", "dirlink/loop"]);
    let mut f = server(halite_wire::map! {"fileserver_followsymlinks" => false});
    assert_eq!(
        f.list("base", FileListKind::Dirs),
        ["dirlink", "sub", "sub/empty", "sub/loop"]
    );
    assert!(f.find("in", "base").is_some() && f.find("dirlink/b?c", "base").is_none());
    assert_eq!(f.find("out", "base"), None);
    let mut f = server(halite_wire::map! {"fileserver_ignoresymlinks" => true});
    assert_eq!(
        f.list("base", FileListKind::Dirs),
        ["dirlink/empty", "sub", "sub/empty"]
    );
}

#[test]
fn files_are_served_in_chunks() {
    let mut f = server(Map::new());
    for (loc, data) in [(0, "alph"), (4, "a"), (5, ""), (4000, "")] {
        let answer = f.serve("a", loc);
        assert_eq!(
            (answer.bytes("data"), answer.str("dest")),
            (Some(data.as_bytes()), Some("a"))
        );
        assert_eq!(answer.len(), 2);
    }
    for missing in [
        "none",
        "sub",
        "../secret",
        "/etc/passwd",
        "",
        "sub/../../secret",
    ] {
        let answer = f.serve(missing, 0);
        assert_eq!(
            (answer.str("data"), answer.str("dest")),
            (Some(""), Some("")),
            "{missing}"
        );
    }
    let bad = halite_wire::map! {"path" => "a", "saltenv" => "base", "loc" => -1};
    assert!(f.server.serve(&bad).is_err());
    let short = f
        .server
        .serve(&halite_wire::map! {"path" => "a", "saltenv" => "base"})
        .unwrap();
    assert_eq!(short.as_map().unwrap().str("dest"), Some(""));
}

#[test]
fn chunks_are_compressed_on_request() {
    let mut f = server(Map::new());
    let ask = |level: Value| {
        halite_wire::map! {"path" => "a", "saltenv" => "base", "loc" => 0, "gzip" => level}
    };
    let answer = f.server.serve(&ask(5.into())).unwrap().into_map().unwrap();
    let keys: Vec<_> = answer.iter().map(|(k, _)| k.as_str().unwrap()).collect();
    assert_eq!(keys, ["data", "dest", "gzip"]);
    let mut plain = String::new();
    let data = answer.bytes("data").unwrap();
    io::Read::read_to_string(&mut flate2::read::GzDecoder::new(data), &mut plain).unwrap();
    assert_eq!((plain.as_str(), answer.int("gzip")), ("alph", Some(5)));
    assert!(f.server.serve(&ask(10.into())).is_err());
    assert!(f.server.serve(&ask("x".into())).is_err());
    let answer = f.server.serve(&ask(Value::Nil)).unwrap();
    assert_eq!(answer.as_map().unwrap().len(), 2);
}

#[test]
fn hashes_have_three_forms() {
    let mut f = server(Map::new());
    let ask = |path: &str| halite_wire::map! {"path" => path, "saltenv" => "base"};
    let hash = f.server.hash(&ask("a")).unwrap();
    let sum = halite_crypto::HashType::Sha256.hex(b"alpha");
    assert_eq!(
        hash,
        Value::Map(halite_wire::map! {"hash_type" => "sha256", "hsum" => sum})
    );
    assert_eq!(f.server.hash(&ask("none")).unwrap(), "".into());
    assert_eq!(
        f.server.hash(&halite_wire::map! {"path" => "a"}).unwrap(),
        "".into()
    );
    let both = f.server.hash_and_stat(&ask("a")).unwrap();
    let both = both.as_array().unwrap();
    assert_eq!(both[0], hash);
    assert_eq!(both[1].as_array().unwrap()[6], Value::Int(5));
    let none = f.server.hash_and_stat(&ask("none")).unwrap();
    assert_eq!(none, Value::Array(vec!["".into(), Value::Nil]));
}

#[test]
fn environments_of_one_do_not_serve_those_of_another() {
    let mut f = server(Map::new());
    let load =
        |env: &str| halite_wire::map! {"path" => "x/f?saltenv=prod", "saltenv" => env, "loc" => 0};
    let other = f.server.serve(&load("base")).unwrap().into_map().unwrap();
    assert_eq!(
        (other.str("data"), other.str("dest")),
        (Some(""), Some("x/f"))
    );
    let same = f.server.serve(&load("prod")).unwrap().into_map().unwrap();
    assert_eq!(same.bytes("data"), Some(&b"prod"[..]));
}

#[test]
fn backends_are_picked() {
    let f = server(halite_wire::map! {
        "fileserver_backend" => vec![Value::from("minion"), "roots".into(), "svn".into()], "file_recv" => true
    });
    let picked = |back: &Value| f.server.picked(Some(back));
    assert_eq!(f.server.picked(None), [0, 1]);
    assert_eq!(picked(&"roots,minionfs".into()), [1, 0]);
    assert_eq!(picked(&"-roots".into()), [0]);
    assert_eq!(
        picked(&vec![Value::from("roots"), "-minion".into()].into()),
        [1]
    );
    assert_eq!(picked(&"hg".into()), [0; 0]);
    let f = server(halite_wire::map! {"fileserver_backend" => "minionfs"});
    assert_eq!(f.server.backends.len(), 0, "nothing without file_recv");
}

#[test]
fn white_and_black_lists() {
    let list = |items: &[&str]| items.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    assert!(exposed("web1", &[], &[]));
    assert!(exposed("web1", &list(&["web*"]), &[]));
    assert!(exposed("web1", &list(&[r"web\d"]), &[]));
    assert!(!exposed("web12", &list(&[r"web\d"]), &[]));
    assert!(!exposed("web1", &list(&["*"]), &list(&["web?"])));
}
