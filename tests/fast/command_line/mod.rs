//! What all commands have in common, run as programs: the report of versions, the Saltfile,
//! and the options of stock's tools. `stock.rs` asks stock which options those are.

mod configuration;
mod saltfile;
mod samples;
mod stock;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Every command with an example of words that it would act on.
const COMMANDS: [&str; 6] = [
    "halite",
    "halite-call",
    "halite-key",
    "halite-master",
    "halite-minion",
    "halite-run",
];

/// What a command printed.
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

fn program(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_halite"));
    own.with_file_name(name)
}

/// A command in a directory that is its home too, without what the environment says of Saltfiles.
fn command(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(program(name));
    command.current_dir(dir).env("HOME", dir);
    for variable in ["SALT_SALTFILE", "SALT_NO_PARSE", "HALITE_CONFIG_DIR"] {
        command.env_remove(variable);
    }
    command
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        status: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

fn run(name: &str, dir: &Path, args: &[&str]) -> Ran {
    ran(command(name, dir).args(args))
}

#[test]
fn versions() {
    let dir = tempfile::tempdir().unwrap();
    let own = env!("CARGO_PKG_VERSION");
    for name in COMMANDS {
        let report = run(name, dir.path(), &["-V"]);
        assert_eq!(
            (report.status, report.err.as_str()),
            (Some(0), ""),
            "{name}"
        );
        let sections: Vec<&str> = report.out.lines().filter(|l| l.ends_with(':')).collect();
        let wanted = ["Salt", "Halite", "Protocol", "Dependency", "System"];
        let shown = |title: &&str| title.split(' ').next().unwrap_or_default().to_owned();
        assert_eq!(
            sections.iter().map(shown).collect::<Vec<_>>(),
            wanted,
            "{name}"
        );
        for line in [
            format!("        halite: {own}\n"),
            "\n        system: Linux\n".into(),
        ] {
            assert!(report.out.contains(&line), "{name}: {}", report.out);
        }
        let long = run(name, dir.path(), &["--versions-report", "-c", "/nowhere"]);
        assert_eq!((long.status, long.out), (Some(0), report.out), "{name}");
        let version = run(name, dir.path(), &["--version"]);
        assert_eq!(
            (version.status, version.out),
            (Some(0), format!("{name} {own}\n"))
        );
    }
}

#[test]
fn config_dump_of_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("master"), "timeout: 77\nuser: nobody\n").unwrap();
    let dump = run("halite", dir.path(), &["-c", ".", "--config-dump"]);
    assert_eq!(dump.status, Some(0), "{}", dump.err);
    assert!(dump.out.contains("\ntimeout: 77\n"), "{}", dump.out);
}

#[test]
fn words_that_stay_text() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("minion"), "id: m\nroot_dir: .\n").unwrap();
    let args = |parse: &[&'static str]| {
        let mut args = vec![
            "-c",
            ".",
            "--local",
            "--out=json",
            "--out-indent=-1",
            "--hard-crash",
        ];
        args.extend(parse);
        args.extend(["test.arg", "a=1", "b=2", "3"]);
        args
    };
    let kwargs = |ran: Ran| {
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        json["local"]["kwargs"].clone()
    };
    let [none, some] = [args(&[]), args(&["--no-parse=b, c"])];
    let none = kwargs(run("halite-call", dir.path(), &none));
    assert_eq!((&none["a"], &none["b"]), (&1.into(), &2.into()));
    let some = kwargs(run("halite-call", dir.path(), &some));
    assert_eq!((&some["a"], &some["b"]), (&1.into(), &"2".into()));
    let asked = args(&[]);
    let told = ran(command("halite-call", dir.path())
        .args(&asked)
        .env("SALT_NO_PARSE", "a"));
    let told = kwargs(told);
    assert_eq!((&told["a"], &told["b"]), (&"1".into(), &2.into()));
}

/// There is no range server and no roster, for stock either.
#[test]
fn targets_that_match_nobody() {
    let master = testing::harness::Master::start("");
    let config = master.config();
    let accepted = config.pki_dir.join("minions");
    std::fs::create_dir_all(&accepted).unwrap();
    std::fs::write(accepted.join("web1"), "a key").unwrap();
    let dir = config.conf_file.parent().unwrap();
    let ask = |option: &str| {
        let place = dir.to_string_lossy();
        run(
            "halite",
            dir,
            &["-c", &place, option, "web1", "test.ping", "--async"],
        )
    };
    assert_eq!(ask("-L").status, Some(0));
    for option in ["-R", "--range", "-H", "--hosts"] {
        let ran = ask(option);
        assert_eq!(ran.status, Some(2), "{option}");
        assert!(
            ran.out.starts_with("No minions matched the target."),
            "{option}: {}",
            ran.out
        );
    }
    // What is wrong with an expression is said to whoever wrote it.
    let place = dir.to_string_lossy();
    for (option, target, reason) in [
        ("-C", "web* and (", "compound"),
        ("-S", "999.1.1.1", "neither an address"),
        ("-P", "os:(", "regular expression"),
    ] {
        let ran = run("halite", dir, &["-c", &place, option, target, "test.ping"]);
        assert_eq!(ran.status, Some(2), "{target}");
        assert!(ran.out.starts_with("No minions matched"), "{}", ran.out);
        let preview = ["-c", &place, option, target, "--preview-target"];
        let preview = run("halite", dir, &preview);
        assert_eq!(preview.status, Some(2), "{target}");
        for err in [ran.err, preview.err] {
            assert!(err.contains("ERROR: ") && err.contains(reason), "{err}");
        }
    }
    let nobody = ["-c", &place, "db*", "--preview-target"];
    let nobody = run("halite", dir, &nobody);
    assert_eq!(nobody.status, Some(0), "{}", nobody.err);
    assert_eq!(
        (nobody.out.as_str(), nobody.err.as_str()),
        ("", "No minions matched the target.\n")
    );
}
