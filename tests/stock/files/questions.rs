//! Questions about files, good and bad.
//!
//! Two are missing. `-roots` as a backend switches that backend off in a worker of stock for ever.
//! An environment such as `../x` leads a stock master with `__env__` out of its directories.

use halite::map;
use halite::wire::{Map, Value};

const PATHS: &[&str] = &[
    "top.sls",
    "a/b/deep.txt",
    "a//b/./deep.txt",
    "a/../top.sls",
    "a/x/../../top.sls",
    "a/run.sh",
    "second.txt",
    "second.txt?index=0",
    "second.txt?index=1",
    "second.txt?index=-1",
    "second.txt?index=9",
    "second.txt?index=x",
    "a/skip.bak",
    ".svn/x",
    "empty",
    "exact",
    "binary",
    "link",
    "hollow/up/run.sh",
    "hollow/up/b/deep.txt",
    "out/key",
    "absolute",
    "dangling",
    "dirlink/deep.txt",
    "fifo",
    "a",
    "none",
    "",
    ".",
    "..",
    "../secret/key",
    "a/../../secret/key",
    "/etc/passwd",
    "//etc/passwd",
    "|/etc/passwd",
    "|../secret/key",
    "|odd/with space?and=&query",
    "odd/with space?and=&query",
    "|odd/|pipe",
    "odd/|pipe",
    "||odd/..dots",
    "odd/..dots",
    "odd/ümlaut",
    "|top.sls",
    "dev.txt",
    "dev.txt?saltenv=dev",
    "top.sls?saltenv=none",
    "top.sls?saltenv=gone",
    "p/prod.txt?saltenv=prod",
    "salt://top.sls",
    "salt://|top.sls",
    "a/b/deep.txt/",
    "a/b/deep.txt/x",
    "nul\0",
    "top.sls\0",
    "mnt/r/one.sls",
    "mnt/r/sub/run",
    "mnt/r/link",
    "mnt/r",
    "r/one.sls",
    "mnt",
    "mnt/../top.sls",
];

const ENVS: &[&str] = &["base", "dev", "none", "prod", "gone", "v1", "main"];

/// Every question with its name; for a repository, or for directories with `odd` paths over which
/// stock fails in other configurations.
pub fn all(gitfs: bool, odd: bool) -> Vec<(String, Map)> {
    let mut all = Vec::new();
    let mut add = |load: Map| all.push((format!("{load:?}"), load));
    for path in PATHS {
        if !odd && (path.contains('\0') || *path == "..") {
            continue;
        }
        for cmd in ["_file_find", "_file_hash", "_file_hash_and_stat"] {
            add(map! {"cmd" => cmd, "path" => *path, "saltenv" => "base"});
        }
        add(map! {"cmd" => "_serve_file", "path" => *path, "saltenv" => "base", "loc" => 0});
    }
    for env in ENVS {
        for path in ["dev.txt", "top.sls", "p/prod.txt", "mnt/r/one.sls"] {
            add(map! {"cmd" => "_file_hash", "path" => path, "saltenv" => *env});
            add(map! {"cmd" => "_serve_file", "path" => path, "saltenv" => *env, "loc" => 0});
        }
        for cmd in [
            "_file_list",
            "_dir_list",
            "_file_list_emptydirs",
            "_symlink_list",
        ] {
            // Stock gives the links of one backend alone.
            if gitfs && cmd == "_symlink_list" {
                continue;
            }
            for prefix in ["", "a", "/a/", "hollow", "zzz", "li", "mnt"] {
                add(map! {"cmd" => cmd, "saltenv" => *env, "prefix" => prefix});
            }
        }
    }
    for (path, loc) in [
        ("exact", 1 << 20),
        ("exact", (2 << 20) - 1),
        ("exact", 2 << 20),
        ("exact", 3 << 20),
        ("binary", 2_500_000),
        ("binary", 999_999),
        ("empty", 1),
        ("top.sls", 5),
        ("top.sls", -1),
        ("top.sls", i64::MAX),
    ] {
        let load = map! {"cmd" => "_serve_file", "path" => path, "saltenv" => "base", "loc" => loc};
        for gzip in [
            Value::Nil,
            0.into(),
            1.into(),
            9.into(),
            (-1).into(),
            10.into(),
            true.into(),
            "5".into(),
        ] {
            let mut load = load.clone();
            load.set("gzip", gzip);
            add(load);
        }
        add(load);
    }
    for load in [
        map! {"cmd" => "_file_envs"},
        map! {"cmd" => "_file_envs", "sources" => true},
        map! {"cmd" => "_file_envs", "back" => "roots"},
        map! {"cmd" => "_file_envs", "back" => "nothing"},
        map! {"cmd" => "_master_opts", "env_only" => true},
        map! {"cmd" => "_file_find"},
        map! {"cmd" => "_file_find", "path" => "top.sls"},
        map! {"cmd" => "_file_hash", "path" => "top.sls"},
        map! {"cmd" => "_file_hash", "saltenv" => "base"},
        map! {"cmd" => "_file_hash_and_stat"},
        map! {"cmd" => "_serve_file", "path" => "top.sls", "saltenv" => "base"},
        map! {"cmd" => "_serve_file", "path" => "top.sls", "loc" => 0},
        map! {"cmd" => "_serve_file", "path" => "dev.txt?saltenv=dev", "loc" => 0, "saltenv" => "base"},
        map! {"cmd" => "_serve_file", "path" => "dev.txt?saltenv=dev", "loc" => 0, "saltenv" => "gone"},
        map! {"cmd" => "_serve_file", "path" => "top.sls", "loc" => 0, "saltenv" => "base", "env" => "dev"},
        map! {"cmd" => "_file_list"},
        map! {"cmd" => "_file_list", "saltenv" => "base", "fsbackend" => "roots"},
        map! {"cmd" => "_file_list", "saltenv" => "base"},
        map! {"cmd" => "_dir_list", "saltenv" => 2019},
        map! {"cmd" => "_symlink_list"},
        map! {"cmd" => "_file_recv", "path" => vec![Value::from("x")], "loc" => 0, "data" => "x", "size" => 1},
    ] {
        add(load);
    }
    all
}

/// An answer without what may differ: the time of access, the order of maps and of environments,
/// the bytes of a compressed piece, the copy that a repository's file is served from.
pub fn comparable(answer: Value, gitfs: bool) -> Value {
    match answer {
        Value::Map(mut map) => {
            if let Some(Value::Array(stat)) = map.get_mut("stat") {
                without_access(stat);
            }
            if map.contains("gzip") {
                let data = map.bytes("data").unwrap_or_default().to_vec();
                map.set("data", Value::Bytes(unpacked(&data)));
            }
            if gitfs && map.str("back") == Some("gitfs") {
                map.set("path", "(a copy)");
            }
            let served = map.contains("data") || map.contains("hsum") || map.contains("rel");
            for (_, value) in &mut map.0 {
                *value = match std::mem::take(value) {
                    // Bytes that are text compare as text.
                    Value::Bytes(bytes) => String::from_utf8(bytes)
                        .map_or_else(|e| Value::Bytes(e.into_bytes()), Value::Str),
                    Value::Array(mut list) if list.iter().all(|v| v.as_str().is_some()) => {
                        list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                        Value::Array(list)
                    }
                    other => comparable(other, gitfs),
                };
            }
            if !served {
                map.0.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
            }
            Value::Map(map)
        }
        Value::Array(mut list) => {
            if let [Value::Map(_), Value::Array(stat)] = list.as_mut_slice() {
                without_access(stat);
            }
            // Environments come in no order from stock; files are sorted in both.
            if list.iter().any(|v| v.is_str("__env__")) {
                list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            Value::Array(list)
        }
        other => other,
    }
}

fn without_access(stat: &mut [Value]) {
    if stat.len() == 10 {
        stat[7] = Value::Nil;
    }
}

fn unpacked(data: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(data), &mut plain).expect("gzip");
    plain
}
