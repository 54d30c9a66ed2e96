//! The command line of `halite-runtime`, and modules in a terminal.

use std::io::Write;
use std::process::{Command, Stdio};
use testing::arena_runtime::{compile, writer};
use testing::{halite_program, short_dir};

#[test]
fn the_command_line_says_what_it_lacks_and_tries_modules_out() {
    let dir = short_dir();
    let runtime = |args: &[&str]| {
        let mut command = Command::new(halite_program("halite-runtime"));
        command.arg("-c").arg(dir.path()).args(args);
        command
    };
    let lacking = runtime(&[]).output().unwrap();
    assert_eq!(lacking.status.code(), Some(78));
    let words = String::from_utf8(lacking.stderr).unwrap();
    assert!(words.contains("servers"), "{words}");
    let file = dir.path().join("m.wasm");
    let path = file.to_str().unwrap();
    compile("exit", &file);
    assert_eq!(
        runtime(&["--run", path]).output().unwrap().status.code(),
        Some(7)
    );
    compile("args", &file);
    let shown = runtime(&["--run", path, "--env", "A=1", "--", "one"])
        .output()
        .unwrap();
    assert_eq!(shown.stdout, b"m.wasm\none\n");
    assert_eq!(shown.stderr, b"A=1\n");
    compile("trap", &file);
    assert_eq!(
        runtime(&["--run", path]).output().unwrap().status.code(),
        Some(134)
    );
    compile(&writer("light/status"), &file);
    let shown = runtime(&["--run", path, "--channel", "light=home/light:w"])
        .output()
        .unwrap();
    assert_eq!(
        (shown.status.code(), &shown.stderr[..]),
        (Some(0), &b"[home/light/status] on\n"[..])
    );
    compile("cat", &file);
    let mut cat = runtime(&["--run", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    cat.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let shown = cat.wait_with_output().unwrap();
    assert_eq!(
        (shown.status.code(), &shown.stdout[..]),
        (Some(3), &b"one\ntwo\n"[..])
    );
    // More than may wait at once comes through, all of it.
    let small = "module_waiting_messages: 2\nmodule_message: 1000\n";
    std::fs::write(dir.path().join("runtime"), small).unwrap();
    let mut cat = runtime(&["--run", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let all: Vec<u8> = (0..20_000)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect();
    let (mut stdin, copy) = (cat.stdin.take().unwrap(), all.clone());
    let writing = std::thread::spawn(move || stdin.write_all(&copy));
    let shown = cat.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert_eq!(shown.status.code(), Some(3));
    assert!(
        shown.stdout == all,
        "{} octets of {}",
        shown.stdout.len(),
        all.len()
    );
    assert_eq!(
        runtime(&["--env", "A=1"]).output().unwrap().status.code(),
        Some(64)
    );
    assert_eq!(
        runtime(&["--run", path, "--env", "A"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(64)
    );
}
