//! Repositories for the file server's backend `gitfs`.

use std::path::Path;
use std::process::Command;

/// Creates a repository with these files on the branch `main`, or commits them to an existing one; returns its URL.
pub fn repository(dir: &Path, files: &[(&str, &str)]) -> String {
    if !dir.join(".git").exists() {
        std::fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "-q", "-b", "main"]);
    }
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "files"]);
    format!("file://{}", dir.display())
}

fn git(dir: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(["-c", "commit.gpgsign=false"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git is installed");
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {err}");
}
