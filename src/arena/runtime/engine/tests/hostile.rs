//! Hostile modules.

use super::*;

#[test]
fn a_module_that_takes_all_memory_is_killed() {
    let run = start(spec(module("allocate")));
    let (_, end) = run.rest();
    assert_eq!(end.status, ExitStatus::Killed);
    assert_eq!(end.reason, "over the limit of memory");
    assert_eq!(run.running.figures().memory, 4 << 20);
}

#[test]
fn growth_beyond_what_a_module_itself_declares_just_fails() {
    let code = wat("(module
        (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
        (memory (export \"memory\") 1 2)
        (func (export \"_start\")
          (drop (memory.grow (i32.const 1)))
          (call $exit (memory.grow (i32.const 1)))))");
    assert_eq!(start(spec(code)).rest().1, exited(-1));
}

#[test]
fn a_large_growth_may_cost_more_than_a_slice() {
    let code = wat("(module
        (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
        (memory (export \"memory\") 1)
        (func (export \"_start\") (call $exit (memory.grow (i32.const 1000)))))");
    let mut spec = spec(code);
    spec.limits.memory = 64 << 20;
    let run = start(spec);
    // It had one page.
    assert_eq!(run.rest().1, exited(1));
    assert_eq!(run.running.figures().memory, 1001 << 16);
}

#[test]
fn endless_recursion_is_a_crash_of_the_module_only() {
    let (_, end) = start(spec(module("recurse"))).rest();
    assert_eq!(end.status, ExitStatus::Crashed);
    assert!(end.reason.contains("stack"), "{}", end.reason);
}

#[test]
fn frames_of_thousands_of_locals_are_a_crash_of_the_module_only() {
    let locals = "i64 ".repeat(29_000);
    let code = format!(
        "(module (func $down (local {locals}) (call $down)) (func (export \"_start\") (call $down)))"
    );
    let (_, end) = start(spec(wat(&code))).rest();
    assert_eq!(end.status, ExitStatus::Crashed);
}

#[test]
fn pointers_out_of_the_memory_are_answered() {
    let wrong = "(i32.const -4) (i32.const 65535) (i32.const 65533) (i32.const 0x7fffffff)";
    for at in wrong.split(") ").map(|at| at.trim_end_matches(')')) {
        let code = format!(
            "(module
            (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"random_get\" (func $random (param i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $poll (param i32 i32 i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"args_get\" (func $args (param i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
            (memory (export \"memory\") 1)
            (func $check (param i32) (if (i32.ne (local.get 0) (i32.const 21)) (then (call $exit (local.get 0)))))
            (func (export \"_start\")
              (call $check (call $write (i32.const 1) {at}) (i32.const 1) (i32.const 0)))
              (call $check (call $write (i32.const 1) (i32.const 0) (i32.const 0) {at})))
              (call $check (call $random {at}) (i32.const 8)))
              (call $check (call $poll {at}) (i32.const 0) (i32.const 1) (i32.const 0)))
              (call $check (call $args (i32.const 0) {at})))
              (call $exit (i32.const 99))))"
        );
        assert_eq!(start(spec(wat(&code))).rest().1, exited(99), "{at}");
    }
}

#[test]
fn counts_and_sizes_have_limits() {
    let code = "(module
        (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"random_get\" (func $random (param i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
        (memory (export \"memory\") 33)
        (func $check (param i32) (if (i32.ne (local.get 0) (i32.const 28)) (then (call $exit (local.get 0)))))
        (func (export \"_start\")
          (call $check (call $write (i32.const 1) (i32.const 0) (i32.const 1025) (i32.const 0)))
          (call $check (call $random (i32.const 0) (i32.const 0x100001)))
          (call $check (call $poll (i32.const 0) (i32.const 0) (i32.const 1025) (i32.const 0)))
          (call $check (call $poll (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
          (call $exit (i32.const 99))))";
    assert_eq!(start(spec(wat(code))).rest().1, exited(99));
}

#[test]
fn a_message_larger_than_allowed_is_refused() {
    let mut spec = spec(module("flood"));
    spec.limits.message = 4;
    assert_eq!(start(spec).rest(), (vec![], exited(35)));
}

#[test]
fn a_hundred_thousand_functions_are_no_trouble() {
    let mut text = String::from("(module (func $f0)");
    for n in 1..100_000 {
        text.push_str(&format!("(func $f{n} (call $f{}))", n - 1));
    }
    text.push_str("(func (export \"_start\") (call $f99999)))");
    let mut spec = spec(wat(&text));
    spec.limits.code = spec.code.len();
    let run = start(spec);
    // They are too deep for the stack.
    assert_eq!(run.rest().1.status, ExitStatus::Crashed);
}

#[test]
fn results_that_multiply_the_code_are_refused() {
    let (results, values) = ("i32 ".repeat(1000), "(local.get 0) ".repeat(1000));
    let branches = "(br_if 0 (local.get 0))".repeat(1000);
    let code = format!(
        "(module (func (export \"_start\") (local i32) (block (result {results}) {values} {branches}) {})",
        "drop ".repeat(1000)
    );
    let why = refused(spec(wat(&(code + ")"))));
    assert!(why.contains("multi-value"), "{why}");
}

#[test]
fn locals_beyond_number_are_refused() {
    let function = format!("(func (local {}))", "i64 ".repeat(29_000));
    let code = format!(
        "(module {} (func (export \"_start\")))",
        function.repeat(70)
    );
    let why = refused(spec(wat(&code)));
    assert!(why.contains("local variables"), "{why}");
}

/// In binary, because as text they would be large.
fn module_of(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let number = |mut n: usize| {
        let mut out = Vec::new();
        while n > 0x7f {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
        out
    };
    let mut code =
        b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0".to_vec();
    for (id, body) in sections {
        let (count, rest) = body.split_at(if *id == 10 { 1 } else { 0 });
        let inner = match id {
            10 => [count, &number(rest.len()), rest].concat(),
            _ => rest.to_vec(),
        };
        code.push(*id);
        code.extend(number(inner.len()));
        code.extend(inner);
    }
    code
}

#[test]
fn elements_without_a_table_are_refused() {
    // One passive segment with a million times function 0, of a byte each, which nothing uses.
    let mut elements = b"\x01\x01\0\xc0\x84\x3d".to_vec();
    elements.resize(elements.len() + 1_000_000, 0);
    let why = refused(spec(module_of(&[
        (9, elements),
        (10, b"\x01\0\x0b".to_vec()),
    ])));
    assert!(why.contains("table elements"), "{why}");
}

#[test]
fn a_function_of_nothing_but_blocks_is_refused() {
    let mut body = b"\x01\0".to_vec();
    body.extend(b"\x02\x40".repeat(1_000_000));
    body.extend(b"\x0b".repeat(1_000_001));
    let mut spec = spec(module_of(&[(10, body)]));
    spec.limits.code = spec.code.len();
    let why = refused(spec);
    assert!(why.contains("in one function"), "{why}");
}

#[test]
fn a_growing_table_ends_in_its_limit() {
    let code = wat("(module
        (table 1 funcref)
        (func (export \"_start\") (loop $again
          (drop (table.grow (ref.null func) (i32.const 10)))
          (br $again))))");
    let (_, end) = start(spec(code)).rest();
    assert_eq!(end.status, ExitStatus::Killed);
    assert_eq!(end.reason, "over the limit of table elements");
}

#[test]
fn a_module_of_nothing_but_copies_ends_with_its_slice() {
    let code = wat("(module
        (memory (export \"memory\") 60)
        (func (export \"_start\") (loop $again
          (memory.fill (i32.const 0) (i32.const 1) (i32.const 3900000))
          (br $again))))");
    let run = start(spec(code));
    run.running.stop();
    assert_eq!(run.rest().1, deleted());
}
