use super::remote::Remote;
use super::*;
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::process::Command;

fn config(dir: &Path, options: Map) -> FileServerOptions {
    let mut all = halite_wire::map! {
        "cachedir" => dir.join("cache").to_string_lossy().as_ref(), "sock_dir" => "/s", "root_dir" => "/",
        "fileserver_backend" => "git", "gitfs_base" => "main",
    };
    for (key, value) in options.0 {
        all.set(key.as_str().unwrap(), value);
    }
    (&MasterConfig::from_map(all, dir).unwrap()).into()
}

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(dir).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "-c",
        "commit.gpgsign=false",
    ]);
    let done = command
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// A repository with the branches main and dev/x, and a tag.
fn repository(top: &Path) -> PathBuf {
    let dir = top.join("repo");
    std::fs::create_dir_all(dir.join("salt/sub")).unwrap();
    git(&dir, &["init", "-q", "-b", "main"]);
    std::fs::write(dir.join("salt/top.sls"), "main").unwrap();
    std::fs::write(dir.join("salt/sub/exec"), "run").unwrap();
    std::fs::write(dir.join("secret"), "out of the root").unwrap();
    std::os::unix::fs::symlink("sub/exec", dir.join("salt/link")).unwrap();
    std::os::unix::fs::symlink("../secret", dir.join("salt/up")).unwrap();
    std::os::unix::fs::symlink("../../etc/passwd", dir.join("salt/out")).unwrap();
    std::os::unix::fs::symlink("loop", dir.join("salt/loop")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.join("salt/sub/exec"), mode).unwrap();
    git(&dir, &["add", "-A"]);
    git(&dir, &["commit", "-q", "-m", "one"]);
    git(&dir, &["tag", "-a", "v1", "-m", "v1"]);
    git(&dir, &["checkout", "-q", "-b", "dev/x"]);
    std::fs::write(dir.join("salt/top.sls"), "dev").unwrap();
    git(&dir, &["commit", "-q", "-a", "-m", "two"]);
    git(&dir, &["checkout", "-q", "main"]);
    dir
}

fn url(dir: &Path) -> String {
    format!("file://{}", dir.display())
}

fn read(fs: &mut GitFs, path: &str, env: &str) -> Option<String> {
    let found = fs.find(path, env)?;
    std::fs::read_to_string(found.path).ok()
}

#[test]
fn branches_and_tags_are_environments() {
    let top = tempfile::tempdir().unwrap();
    let repo = repository(top.path());
    let config = config(
        top.path(),
        halite_wire::map! {"gitfs_remotes" => vec![Value::from(url(&repo))]},
    );
    let (mut updater, mut fs) = (GitFs::new(&config), GitFs::new(&config));
    assert_eq!(
        (fs.envs().len(), read(&mut fs, "secret", "base")),
        (0, None)
    );
    assert!(updater.update(&[0], None));
    assert!(!updater.update(&[0], None), "nothing new");
    assert_eq!(fs.envs(), ["base", "dev/x", "v1"]);
    assert_eq!(read(&mut fs, "salt/top.sls", "base").unwrap(), "main");
    assert_eq!(read(&mut fs, "salt/top.sls", "dev/x").unwrap(), "dev");
    assert_eq!(read(&mut fs, "salt/top.sls", "v1").unwrap(), "main");
    assert_eq!(read(&mut fs, "salt/link", "base").unwrap(), "run");
    let exec = fs.find("salt/sub/exec", "base").unwrap();
    assert_eq!(
        (exec.stat, exec.rel.as_str()),
        (vec![0o100_755], "salt/sub/exec")
    );
    for bad in [
        "salt",
        "salt/sub",
        "none",
        "../repo/secret",
        "/secret",
        "salt/../../x",
        "../salt/top.sls",
        "salt/out",
        "salt/loop",
    ] {
        assert_eq!(read(&mut fs, bad, "base"), None, "{bad}");
    }
    for env in [
        "main",
        "",
        "../base",
        "HEAD",
        "refs/heads/main",
        "--help",
        "v1^{tree}",
        "origin/main",
    ] {
        assert_eq!(read(&mut fs, "salt/top.sls", env), None, "{env}");
    }
    let lists = fs.lists("base");
    assert_eq!(lists.dirs, ["salt", "salt/sub"]);
    assert_eq!(lists.files.len(), 7);
    assert_eq!(lists.links["salt/link"], "sub/exec");
    // A fetched commit is seen by other processes.
    std::fs::write(repo.join("salt/top.sls"), "newer").unwrap();
    git(&repo, &["commit", "-q", "-a", "-m", "three"]);
    git(&repo, &["tag", "-d", "v1"]);
    assert!(updater.update(&[0], None));
    assert_eq!(read(&mut fs, "salt/top.sls", "base").unwrap(), "newer");
    assert_eq!(fs.envs(), ["base", "dev/x"]);
    let head = std::fs::read_to_string(repo.join(".git/refs/heads/main")).unwrap();
    assert_eq!(read(&mut fs, "salt/top.sls", &head[..10]).unwrap(), "newer");
    assert_eq!(read(&mut fs, "salt/top.sls", "0123456789"), None);
}

#[test]
fn options_of_a_remote() {
    let top = tempfile::tempdir().unwrap();
    let repo = repository(top.path());
    let item = |key: &str, value: Value| Value::Map([(key, value)].into_iter().collect());
    let own = Value::Array(vec![
        item("root", "salt".into()),
        item("mountpoint", "salt://mnt".into()),
        item("base", "dev/x".into()),
        item("name", "mine".into()),
        item(
            "saltenv",
            Value::Array(vec![item(
                "prod",
                Value::Array(vec![item("ref", "v1".into())]),
            )]),
        ),
        item("saltenv_blacklist", "main".into()),
    ]);
    let remote = item(&url(&repo), own);
    let config = config(
        top.path(),
        halite_wire::map! {"gitfs_remotes" => vec![remote]},
    );
    let mut fs = GitFs::new(&config);
    assert!(fs.update(&fs.select(&["mine".into()]), None));
    assert_eq!(fs.envs(), ["base", "prod"]);
    assert_eq!(read(&mut fs, "mnt/top.sls", "base").unwrap(), "dev");
    assert_eq!(read(&mut fs, "mnt/top.sls", "prod").unwrap(), "main");
    for bad in [
        "top.sls",
        "mnt/secret",
        "mnt/../secret",
        "mntx/top.sls",
        "mnt",
    ] {
        assert_eq!(read(&mut fs, bad, "base"), None, "{bad}");
    }
    let lists = fs.lists("prod");
    assert_eq!(lists.dirs, ["mnt", "mnt/sub"]);
    assert!(lists.files.contains(&"mnt/sub/exec".to_owned()));
    let (locked, errors) = fs.set_locks(None, true);
    assert_eq!((locked.len(), errors.len()), (1, 0));
    assert!(!fs.update(&[0], None));
    assert_eq!(fs.set_locks(Some("*nothing*"), false).0.len(), 0);
    assert_eq!(fs.set_locks(Some("file://*"), false).0.len(), 1);
    let gone = self::config(top.path(), Map::new());
    assert!(GitFs::new(&gone).prune() && !top.path().join("cache/gitfs/mirrors/mine").exists());
    assert!(clear_cache(&gone.cachedir).is_empty() && !top.path().join("cache/gitfs").exists());
}

#[test]
fn only_urls_of_repositories_are_accepted() {
    let top = tempfile::tempdir().unwrap();
    let taken = |url: Value| {
        let config = config(top.path(), halite_wire::map! {"gitfs_remotes" => vec![url]});
        Remote::all(&config).len() == 1
    };
    for good in [
        "https://example.org/x.git",
        "http://u:p@example.org/x",
        "ssh://git@example.org:22/x",
        "git://h/x",
        "file:///srv/x",
        "git@github.com:a/b.git",
    ] {
        assert!(taken(good.into()), "{good}");
    }
    for bad in [
        "ext::sh -c touch /tmp/x",
        "ext::x",
        "--upload-pack=x",
        "-x",
        "fd::17",
        "ssh://-oProxyCommand=x/y",
        "ssh://u@-oProxyCommand=x/y",
        "https://",
        "ftp://h/x",
        "/srv/x",
        "x",
        "",
        "a b",
        "git@-x:y",
        "-u@h:y",
        "u@h:-x",
        "https://h/\nx",
        "u@h:ext::x",
        "__env__ https://h/x",
    ] {
        assert!(!taken(bad.into()), "{bad}");
    }
    let own = |key: &str, value: Value| {
        let options: Map = [(key, value)].into_iter().collect();
        Value::Map([("https://h/x", Value::Map(options))].into_iter().collect())
    };
    assert!(taken(own("name", "x".into())));
    for (key, value) in [
        ("name", "../x"),
        ("name", ".x"),
        ("name", "a/b"),
        ("insteadof", "x"),
        ("refspecs", "--x"),
        ("ref_types", "note"),
        ("refspecs", "+refs/heads/*:refs/heads/*"),
        ("saltenv", "x"),
        ("update_interval", "x"),
        ("ssl_verify", "x"),
    ] {
        assert!(!taken(own(key, value.into())), "{key}: {value}");
    }
}

#[test]
fn a_failing_remote_does_not_affect_others() {
    let top = tempfile::tempdir().unwrap();
    let bad = url(&top.path().join("none"));
    let config = config(
        top.path(),
        halite_wire::map! {"gitfs_remotes" => vec![Value::from(bad)]},
    );
    let mut fs = GitFs::new(&config);
    assert!(!fs.update(&[0], None));
    assert_eq!(fs.envs(), [""; 0]);
}
