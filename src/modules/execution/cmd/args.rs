//! The argument lists of `cmd` functions, identical to those of stock 3008.3.

use crate::execution::declare::{Arg, Lit, opt, req};

const NIL: Lit = Lit::Nil;
const YES: Lit = Lit::Bool(true);
const NO: Lit = Lit::Bool(false);
const DEBUG: Lit = Lit::Str("debug");

/// An argument list without the given names.
const fn without<const N: usize>(all: &[Arg], names: &[&str]) -> [Arg; N] {
    assert!(
        all.len() == N + names.len(),
        "a name is not among the arguments"
    );
    let mut left = [req(""); N];
    let (mut from, mut to) = (0, 0);
    while from < all.len() {
        if !is_one_of(all[from].name, names) {
            left[to] = all[from];
            to += 1;
        }
        from += 1;
    }
    left
}

const fn is_one_of(name: &str, names: &[&str]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if is(name.as_bytes(), names[i].as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

/// `==`; not yet available in constants.
const fn is(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// `cmd.run`.
pub(super) const RUN: &[Arg] = &[
    req("cmd"),
    opt("cwd", NIL),
    opt("stdin", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", NIL),
    opt("env", NIL),
    opt("clean_env", NO),
    opt("template", NIL),
    opt("rstrip", YES),
    opt("umask", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", DEBUG),
    opt("log_callback", NIL),
    opt("hide_output", NO),
    opt("timeout", NIL),
    opt("reset_system_locale", YES),
    opt("ignore_retcode", NO),
    opt("saltenv", NIL),
    opt("use_vt", NO),
    opt("redirect_stderr", YES),
    opt("bg", NO),
    opt("password", NIL),
    opt("encoded_cmd", NO),
    opt("raise_err", NO),
    opt("prepend_path", NIL),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];

/// `cmd.shell`.
pub(super) const SHELL: &[Arg] = &without::<26>(
    RUN,
    &[
        "python_shell",
        "redirect_stderr",
        "encoded_cmd",
        "raise_err",
    ],
);

/// `cmd.run_stdout`.
pub(super) const RUN_STDOUT: &[Arg] =
    &without::<26>(RUN, &["redirect_stderr", "bg", "encoded_cmd", "raise_err"]);

/// `cmd.run_stderr`.
pub(super) const RUN_STDERR: &[Arg] = RUN_STDOUT;

/// `cmd.run_all`.
pub(super) const RUN_ALL: &[Arg] = &[
    req("cmd"),
    opt("cwd", NIL),
    opt("stdin", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", NIL),
    opt("env", NIL),
    opt("clean_env", NO),
    opt("template", NIL),
    opt("rstrip", YES),
    opt("umask", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", DEBUG),
    opt("log_callback", NIL),
    opt("hide_output", NO),
    opt("timeout", NIL),
    opt("reset_system_locale", YES),
    opt("ignore_retcode", NO),
    opt("saltenv", NIL),
    opt("use_vt", NO),
    opt("redirect_stderr", NO),
    opt("password", NIL),
    opt("encoded_cmd", NO),
    opt("prepend_path", NIL),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];

/// `cmd.run_bg`.
pub(super) const RUN_BG: &[Arg] = &[
    req("cmd"),
    opt("cwd", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", NIL),
    opt("env", NIL),
    opt("clean_env", NO),
    opt("template", NIL),
    opt("umask", NIL),
    opt("timeout", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", DEBUG),
    opt("log_callback", NIL),
    opt("reset_system_locale", YES),
    opt("ignore_retcode", NO),
    opt("saltenv", NIL),
    opt("password", NIL),
    opt("prepend_path", NIL),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];

/// `cmd.retcode`.
pub(super) const RETCODE: &[Arg] =
    &without::<23>(RUN_STDOUT, &["rstrip", "hide_output", "prepend_path"]);

/// `cmd.script`.
pub(super) const SCRIPT: &[Arg] = &[
    req("source"),
    opt("args", NIL),
    opt("cwd", NIL),
    opt("stdin", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", NIL),
    opt("env", NIL),
    opt("template", NIL),
    opt("umask", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", DEBUG),
    opt("log_callback", NIL),
    opt("hide_output", NO),
    opt("timeout", NIL),
    opt("reset_system_locale", YES),
    opt("saltenv", NIL),
    opt("use_vt", NO),
    opt("bg", NO),
    opt("password", NIL),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];

/// `cmd.script_retcode`: like [`SCRIPT`] in another order, with a template.
pub(super) const SCRIPT_RETCODE: &[Arg] = &[
    req("source"),
    opt("args", NIL),
    opt("cwd", NIL),
    opt("stdin", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", NIL),
    opt("env", NIL),
    opt("template", Lit::Str("jinja")),
    opt("umask", NIL),
    opt("timeout", NIL),
    opt("reset_system_locale", YES),
    opt("saltenv", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", DEBUG),
    opt("log_callback", NIL),
    opt("use_vt", NO),
    opt("password", NIL),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];

/// `cmd.run_chroot`.
pub(super) const RUN_CHROOT: &[Arg] = &[
    req("root"),
    req("cmd"),
    opt("cwd", NIL),
    opt("stdin", NIL),
    opt("runas", NIL),
    opt("group", NIL),
    opt("shell", Lit::Shell),
    opt("python_shell", YES),
    opt("binds", NIL),
    opt("env", NIL),
    opt("clean_env", NO),
    opt("template", NIL),
    opt("rstrip", YES),
    opt("umask", NIL),
    opt("output_encoding", NIL),
    opt("output_loglevel", Lit::Str("quiet")),
    opt("log_callback", NIL),
    opt("hide_output", NO),
    opt("timeout", NIL),
    opt("reset_system_locale", YES),
    opt("ignore_retcode", NO),
    opt("saltenv", NIL),
    opt("use_vt", NO),
    opt("bg", NO),
    opt("success_retcodes", NIL),
    opt("success_stdout", NIL),
    opt("success_stderr", NIL),
];
