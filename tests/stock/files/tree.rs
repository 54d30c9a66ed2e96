//! Trees of files that both masters serve.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Environments below `top`: `base` with two directories, `dev`, and any other.
pub fn build(top: &Path) {
    let put = |path: &str, content: &[u8]| {
        let path = top.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    put("base/top.sls", b"base: {'*': []}\n");
    put("base/a/b/deep.txt", b"deep");
    put("base/a/run.sh", b"#!/bin/sh\n");
    put("base/a/skip.bak", b"ignored by a glob");
    put("base/.svn/x", b"ignored by an expression");
    put("base/empty", b"");
    put("base/exact", &vec![b'e'; 2 << 20]);
    put(
        "base/binary",
        &(0..3_000_000u32)
            .map(|n| (n * 31 % 256) as u8)
            .collect::<Vec<_>>(),
    );
    put("base/odd/with space?and=&query", b"odd");
    put("base/odd/|pipe", b"pipe");
    put("base/odd/ümlaut", "ü".as_bytes());
    put("base/odd/..dots", b"dots");
    put("more/second.txt", b"second");
    put("more/a/b/deep.txt", b"hidden by the first");
    put("dev/dev.txt", b"dev");
    put("envs/prod/p/prod.txt", b"prod");
    put("secret/key", b"secret");
    std::fs::create_dir_all(top.join("base/hollow/inner")).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(top.join("base/a/run.sh"), mode).unwrap();
    let link = |target: &str, path: &str| symlink(target, top.join("base").join(path)).unwrap();
    link("a/run.sh", "link");
    link("../a", "hollow/up");
    link("../secret", "out");
    link("/etc/hostname", "absolute");
    link("nowhere", "dangling");
    link("a/b", "dirlink");
    nix::unistd::mkfifo(
        &top.join("base/fifo"),
        nix::sys::stat::Mode::from_bits_truncate(0o644),
    )
    .unwrap();
}

/// The options that serve them.
pub fn roots(top: &Path) -> String {
    let top = top.display();
    format!(
        "file_roots:\n  base: [{top}/base, {top}/more]\n  dev: [{top}/dev]\n  none: []\n  __env__: ['{top}/envs/__env__']\n\
         file_ignore_glob: ['*.bak']\nfile_ignore_regex: ['/\\.svn($|/)', '^\\.svn']\n"
    )
}

fn git(dir: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(args)
        .output()
        .expect("git is installed");
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// A repository with two branches and a tag; its URL.
pub fn repository(top: &Path) -> String {
    let dir = top.join("repo");
    std::fs::create_dir_all(dir.join("r/sub")).unwrap();
    git(&dir, &["init", "-q", "-b", "main"]);
    std::fs::write(dir.join("r/one.sls"), "main").unwrap();
    std::fs::write(dir.join("r/sub/run"), "run").unwrap();
    std::fs::set_permissions(
        dir.join("r/sub/run"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    symlink("sub/run", dir.join("r/link")).unwrap();
    git(&dir, &["add", "-A"]);
    git(&dir, &["commit", "-q", "-m", "one"]);
    git(&dir, &["tag", "v1"]);
    git(&dir, &["checkout", "-q", "-b", "dev"]);
    std::fs::write(dir.join("r/one.sls"), "dev").unwrap();
    git(&dir, &["commit", "-q", "-a", "-m", "two"]);
    git(&dir, &["checkout", "-q", "main"]);
    format!("file://{}", dir.display())
}
