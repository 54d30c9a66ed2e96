//! Arguments, environment, streams, exit codes, and what is refused.

use super::*;

#[test]
fn a_module_writes_a_line_and_ends() {
    let run = start(spec(module("hello")));
    assert_eq!(run.rest(), (vec![out("hello\n")], exited(0)));
    assert!(run.told.try_recv().is_err(), "the end is the last");
}

#[test]
fn arguments_and_environment_come_with_the_program_first() {
    let (told, end) = start(spec(module("args"))).rest();
    assert_eq!(end, exited(0));
    let stdout = text(&told, Stream::Stdout);
    assert_eq!(stdout, "test.wasm\none\ntwo words\n");
    assert_eq!(text(&told, Stream::Stderr), "NAME=value\nEMPTY=\n");
}

#[test]
fn the_exit_code_is_kept() {
    assert_eq!(start(spec(module("exit"))).rest().1, exited(7));
}

#[test]
fn a_trap_is_a_crash_in_its_words_and_half_a_line_is_not_lost() {
    let (told, end) = start(spec(module("trap"))).rest();
    assert_eq!(end.status, ExitStatus::Crashed);
    assert_eq!(end.code, None);
    assert!(end.reason.contains("unreachable"), "{}", end.reason);
    assert_eq!(text(&told, Stream::Stderr), "oops");
}

#[test]
fn standard_input_is_read_until_its_end() {
    let run = start(Spec {
        stdin: true,
        ..spec(module("cat"))
    });
    let long = "a line that is longer than what is read at once\n";
    run.running.input(&Bytes::from("first\n"));
    assert_eq!(run.next(), out("first\n"));
    run.running.input(&Bytes::from(long));
    run.running.input(&Bytes::new());
    run.running.input(&Bytes::from("after the end\n"));
    let (told, end) = run.rest();
    assert_eq!(text(&told, Stream::Stdout), long);
    assert_eq!(end, exited(3));
}

#[test]
fn without_standard_input_its_end_is_there_at_once() {
    let run = start(spec(module("cat")));
    run.running.input(&Bytes::from("nobody reads this\n"));
    assert_eq!(run.rest(), (vec![], exited(3)));
}

#[test]
fn what_is_no_program_is_refused_before_it_is_started() {
    let cases = [
        (b"not wasm".to_vec(), "magic"),
        (vec![], "unexpected end"),
        (wat("(module)"), "_start"),
        (
            wat("(module (func (export \"_start\") (param i32)))"),
            "_start",
        ),
        (
            wat("(module (import \"env\" \"system\" (func)) (func (export \"_start\")))"),
            "\"system\" from \"env\"",
        ),
        (
            wat("(module (import \"env\" \"memory\" (memory 1)) (func (export \"_start\")))"),
            "\"memory\" from \"env\"",
        ),
        (
            wat(
                "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)) (func (export \"_start\")))",
            ),
            "fd_write",
        ),
        (
            wat("(module (func $early) (start $early) (func (export \"_start\")))"),
            "start",
        ),
        (
            wat("(module (memory 65) (func (export \"_start\")))"),
            "limit of memory",
        ),
        (
            wat("(module (table 10001 funcref) (func (export \"_start\")))"),
            "limit of table elements",
        ),
    ];
    for (code, expected) in cases {
        let why = refused(spec(code));
        assert!(why.contains(expected), "{expected:?} in {why:?}");
    }
}

#[test]
fn a_module_that_is_too_large_is_refused() {
    let mut spec = spec(module("hello"));
    spec.limits.code = spec.code.len() - 1;
    let why = refused(spec);
    assert!(why.contains("bytes"), "{why}");
}

#[test]
fn an_argument_with_a_nul_is_refused() {
    let mut spec = spec(module("args"));
    spec.argv.push("a\0b".into());
    assert!(refused(spec).contains("NUL"));
}

#[test]
fn functions_that_are_not_there_say_so() {
    let code = wat("(module
        (import \"wasi_snapshot_preview1\" \"path_unlink_file\" (func $unlink (param i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
        (func (export \"_start\") (call $exit (call $unlink (i32.const 3) (i32.const 0) (i32.const 0)))))");
    assert_eq!(start(spec(code)).rest().1, exited(52));
}

#[test]
fn memory_and_working_time_are_told() {
    let run = start(spec(module("spin")));
    assert_eq!(run.running.figures().memory, 64 << 10);
    while run.running.figures().cpu.is_zero() {
        std::thread::yield_now();
    }
    assert_eq!(run.running.figures().active, None);
    run.running.stop();
    assert_eq!(run.rest().1, deleted());
}

#[test]
fn what_it_offers_is_what_registrations_say() {
    let apis = interpreter();
    for word in ["wasm", "wasi", "channels", "delete_module", "stdio:out"] {
        assert!(apis.apis().contains(&word), "{word}");
    }
}

#[test]
fn the_seeds_for_fuzzing_are_these_modules() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let modules = std::fs::read_dir(top.join("tests/data/arena/wat")).expect("modules");
    for entry in modules {
        let path = entry.expect("a module").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name");
        let seed = std::fs::read(top.join("fuzz/corpus/arena_module").join(name));
        assert_eq!(seed.expect("a seed"), module(name), "{name}");
    }
}
