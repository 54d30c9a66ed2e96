//! Defaults of options in a Saltfile. Which directory of configurations a command looks for
//! tells which Saltfile it has read.

use super::{COMMANDS, Ran, command, ran, run};
use std::fs;
use std::path::Path;

/// A Saltfile that names `directory` for all commands.
fn naming(directory: &str) -> String {
    let stock = |name: &str| name.replacen("halite", "salt", 1);
    let section = |name: &str| format!("{}:\n  config_dir: /nowhere/{directory}\n", stock(name));
    COMMANDS.map(section).concat()
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The directory that a command did not find.
fn looked_for(ran: &Ran) -> &str {
    assert_eq!(ran.status, Some(64), "{}", ran.err);
    let behind = ran
        .err
        .split("/nowhere/")
        .nth(1)
        .unwrap_or_else(|| panic!("{}", ran.err));
    behind.split(' ').next().unwrap()
}

#[test]
fn every_command_has_defaults() {
    let dir = tempfile::tempdir().unwrap();
    for name in COMMANDS {
        write(dir.path(), "Saltfile", &naming("stock"));
        assert_eq!(looked_for(&run(name, dir.path(), &[])), "stock", "{name}");
        // Its own name counts more than that of stock.
        let own = naming("stock") + &format!("{name}:\n  config_dir: /nowhere/own\n");
        write(dir.path(), "Saltfile", &own);
        assert_eq!(looked_for(&run(name, dir.path(), &[])), "own", "{name}");
        // The command line counts more than both.
        let given = run(name, dir.path(), &["-c", "/nowhere/given"]);
        assert_eq!(looked_for(&given), "given", "{name}");
    }
}

#[test]
fn where_it_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    for (name, word) in [
        ("option", "option"),
        ("variable", "variable"),
        ("Saltfile", "here"),
    ] {
        write(dir.path(), name, &naming(word));
    }
    write(home.path(), ".salt/Saltfile", &naming("home"));
    let key = |args: &[&str], variable: Option<&str>| {
        let mut key = command("halite-key", dir.path());
        key.args(args).env("HOME", home.path());
        if let Some(path) = variable {
            key.env("SALT_SALTFILE", path);
        }
        ran(&mut key)
    };
    let named = key(&["--saltfile", "option"], Some("variable"));
    assert_eq!(looked_for(&named), "option");
    assert_eq!(looked_for(&key(&[], Some("variable"))), "variable");
    assert_eq!(looked_for(&key(&[], None)), "here");
    // The Saltfile counts more than the variable of the directory, as in stock.
    let mut other = command("halite-key", dir.path());
    other.env("HALITE_CONFIG_DIR", "/nowhere/variable-of-directory");
    assert_eq!(looked_for(&ran(&mut other)), "here");
    fs::remove_file(dir.path().join("Saltfile")).unwrap();
    assert_eq!(looked_for(&key(&[], None)), "home");
    // An empty name is none.
    let none = key(&["--saltfile=", "-c", "/nowhere/none"], Some("variable"));
    assert_eq!(looked_for(&none), "none");
}

/// Root may be working in a directory of somebody else.
#[test]
fn one_that_others_could_have_written_is_ignored() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("Saltfile");
    write(dir.path(), "Saltfile", &naming("here"));
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let key = |args: &[&str]| {
        let mut key = command("halite-key", dir.path());
        ran(key.args(args).env("HOME", "/nowhere"))
    };
    let ignored = |why: &str| {
        let given = key(&["-c", "/nowhere/given"]);
        assert_eq!(looked_for(&given), "given");
        assert!(given.err.contains(why), "{}", given.err);
        assert!(!key(&[]).err.contains("/nowhere/here"));
        assert_eq!(looked_for(&key(&["--saltfile", "Saltfile"])), "here");
    };
    assert_eq!(looked_for(&key(&[])), "here");
    mode(&file, 0o666);
    ignored("everybody may write");
    mode(&file, 0o644);
    mode(dir.path(), 0o1777);
    ignored("everybody may write");
    mode(dir.path(), 0o755);
    assert_eq!(looked_for(&key(&[])), "here");
    if nix::unistd::geteuid().is_root() {
        chown(&file, Some(65534), None).unwrap();
        ignored("belongs to account 65534");
        chown(&file, Some(0), None).unwrap();
        chown(dir.path(), Some(65534), None).unwrap();
        ignored("belongs to account 65534");
    }
}

#[test]
fn kinds_of_options() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "minion", "id: m\nroot_dir: .\n");
    let text = "halite-call:\n  config_dir: .\n  local: True\n  output: json\n  output_indent: -1\n  \
        log_level_logfile: debug\n  saltfile: elsewhere\n  no_option: 7\n  retcode_passthrough: no\n  \
        versions_report: true\n  print_metadata: true\n";
    write(dir.path(), "Saltfile", text);
    let call = run("halite-call", dir.path(), &["test.ping"]);
    assert_eq!((call.status, call.err.as_str()), (Some(0), ""));
    let json: serde_json::Value = serde_json::from_str(&call.out).unwrap();
    assert_eq!(json["local"]["return"], true, "{}", call.out);
    assert_eq!(call.out.lines().count(), 1);
    let indented = run("halite-call", dir.path(), &["--out-indent=2", "test.ping"]);
    assert!(indented.out.lines().count() > 1, "{}", indented.out);
}

#[test]
fn what_is_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, args: &[&str], words: &[&str]| {
        let ran = run(name, dir.path(), args);
        assert_eq!(
            (ran.status, ran.out.as_str()),
            (Some(64), ""),
            "{}",
            ran.err
        );
        for word in words {
            assert!(ran.err.contains(word), "{word}: {}", ran.err);
        }
    };
    refused(
        "halite-key",
        &["--saltfile", "none"],
        &["'none' file does not exist."],
    );
    for (text, words) in [
        (
            "- a\n",
            [
                "Error parsing configuration file",
                "conf should be a document",
            ],
        ),
        ("a: [\n", ["Error parsing configuration file", "Saltfile"]),
        ("salt-key: 7\n", ["salt-key", "option: value"]),
        ("salt-key:\n  list: foo\n", ["--list", "Saltfile"]),
    ] {
        write(dir.path(), "Saltfile", text);
        refused("halite-key", &["-c", "."], &words);
    }
    // A section of another command is nobody's concern, nor is an empty Saltfile.
    for text in ["salt-ssh: 7\n", "", "salt-key:\n"] {
        write(dir.path(), "Saltfile", text);
        let version = run("halite-key", dir.path(), &["-c", "/nowhere/given"]);
        assert_eq!(looked_for(&version), "given");
    }
}

/// The daemon reads the Saltfile that sent it into the background.
#[test]
fn a_daemon_by_saltfile_starts_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    write(
        dir.path(),
        "minion",
        &format!("id: m\nroot_dir: {root}\nmaster: 127.0.0.1\nmaster_port: 9\n"),
    );
    let saltfile =
        format!("salt-minion:\n  config_dir: {root}\n  daemon: true\n  pidfile: {root}/pid\n");
    write(dir.path(), "Saltfile", &saltfile);
    let started = run("halite-minion", dir.path(), &[]);
    assert_eq!((started.status, started.err.as_str()), (Some(0), ""));
    let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
}
