//! A program in C, compiled by Debian's clang with wasi-libc, where they are installed.

use super::*;
use std::process::Command;

/// The compiled program of `tests/data/arena/c`; `None` if there is no compiler for it.
fn compiled(name: &str) -> Option<Vec<u8>> {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/arena/c")
        .join(format!("{name}.c"));
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("program.wasm");
    let ran = Command::new("clang")
        .args(["--target=wasm32-wasi", "--sysroot=/usr", "-O2", "-o"])
        .arg(&out)
        .arg(source)
        .output();
    match ran {
        Ok(ran) if ran.status.success() => Some(std::fs::read(out).expect("it was written")),
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr);
            // Clang without the files for the target is of no use.
            let lacks = [
                "file not found",
                "unable to find library",
                "wasm-ld",
                "cannot open",
                "No available targets",
            ];
            assert!(lacks.iter().any(|lack| said.contains(lack)), "{said}");
            None
        }
        Err(_) => None,
    }
}

#[test]
fn a_program_in_c_uses_arguments_environment_streams_and_channels() {
    let Some(code) = compiled("echo") else {
        eprintln!("skipped: no clang with wasi-libc");
        return;
    };
    let mut spec = spec(code);
    spec.env.push("PREFIX=seen: ".into());
    spec.stdin = true;
    spec.channels = vec![
        open("in", Mode::Read, "realm/in"),
        open("light", Mode::ReadWrite, "realm/kitchen/light"),
    ];
    let run = start(spec);
    run.running.input(&Bytes::from("something typed\n"));
    run.running.input(&Bytes::new());
    let mut before = Vec::new();
    loop {
        match run.next() {
            Told::Subscribed(topic) => {
                assert_eq!(topic, "realm/in");
                break;
            }
            told => before.push(told),
        }
    }
    let stdout = "argv[0]=test.wasm\nargv[1]=one\nargv[2]=two words\n";
    assert_eq!(text(&before, Stream::Stdout), stdout);
    assert_eq!(text(&before, Stream::Stderr), "input: something typed\n");
    for word in ["on", "off"] {
        run.deliver("realm/in", format!("{word}\n").as_bytes());
        let payload = format!("seen: {word}\n").into_bytes();
        let topic = "realm/kitchen/light/status".to_owned();
        assert_eq!(run.next(), Told::Published(topic, payload));
    }
    run.deliver("realm/in", b"quit\n");
    assert_eq!(run.rest().1, exited(5));
}
