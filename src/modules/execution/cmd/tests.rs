//! Runs real commands; expected values come from a stock 3008.3 minion.

use super::super::{CallOutcome, Context, call};
use super::*;

fn ctx() -> Context {
    Context {
        job: Some(map! {"jid" => "20260101000000000001"}),
        ..Context::default()
    }
}

fn with(fun: &str, cmd: Value, kwargs: Map) -> CallOutcome {
    let mut marked = map! {"__kwarg__" => true, "shell" => "/bin/sh"};
    marked.0.extend(kwargs.0);
    call(&ctx(), fun, &[cmd, marked.into()])
}

fn run(fun: &str, cmd: &str) -> CallOutcome {
    with(fun, cmd.into(), map! {})
}

fn fields(outcome: &CallOutcome) -> (Value, String, String) {
    let map = outcome.ret.as_map().unwrap();
    (
        map.get("retcode").cloned().unwrap(),
        map.str("stdout").unwrap().to_owned(),
        map.str("stderr").unwrap().to_owned(),
    )
}

const NOISY: &str = "echo a; echo b >&2; exit 3";

#[test]
fn output_and_return_code() {
    let got = run("cmd.run", NOISY);
    assert_eq!(
        (got.ret, got.retcode, got.success),
        ("a\nb".into(), 3, false)
    );
    let got = run("cmd.run_all", NOISY);
    assert_eq!(fields(&got), (3.into(), "a".into(), "b".into()));
    assert_eq!(got.retcode, 3);
    assert_eq!(run("cmd.run_stdout", NOISY).ret, "a".into());
    assert_eq!(run("cmd.run_stderr", NOISY).ret, "b".into());
    assert_eq!(run("cmd.retcode", "exit 4").ret, 4.into());
    assert_eq!(run("cmd.shell", "echo $((1+2)) | cat").ret, "3".into());
    assert_eq!(fields(&run("cmd.run_all", "kill -9 $$")).0, Value::Int(-9));
}

#[test]
fn what_counts_as_success() {
    let code = |kwargs: Map| {
        let got = with("cmd.run_all", NOISY.into(), kwargs);
        (fields(&got).0, got.retcode)
    };
    assert_eq!(code(map! {"success_retcodes" => "1,3"}), (0.into(), 0));
    assert_eq!(code(map! {"success_stdout" => "a"}), (0.into(), 0));
    assert_eq!(
        code(map! {"success_stderr" => vec!["b".to_owned()]}),
        (0.into(), 0)
    );
    assert_eq!(code(map! {"ignore_retcode" => true}), (3.into(), 0));
    let got = with(
        "cmd.run_all",
        NOISY.into(),
        map! {"success_retcodes" => "x"},
    );
    assert_eq!(
        got.ret,
        "ERROR executing 'cmd.run_all': success_retcodes must be a list of integers".into()
    );
    let got = with(
        "cmd.run",
        "echo a; exit 3".into(),
        map! {"raise_err" => true},
    );
    assert_eq!((got.ret, got.retcode), ("ERROR: a".into(), 1));
}

#[test]
fn hiding_and_merging() {
    let got = with("cmd.run_all", NOISY.into(), map! {"hide_output" => true});
    assert_eq!(fields(&got), (3.into(), String::new(), String::new()));
    let got = with(
        "cmd.run_all",
        NOISY.into(),
        map! {"redirect_stderr" => true},
    );
    assert_eq!(fields(&got), (3.into(), "a\nb".into(), String::new()));
    let got = with("cmd.run", NOISY.into(), map! {"redirect_stderr" => false});
    assert_eq!(got.ret, "a".into());
}

#[test]
fn without_a_shell() {
    let got = with(
        "cmd.run",
        "echo 'a b' c;d".into(),
        map! {"python_shell" => false},
    );
    assert_eq!(got.ret, "a b c;d".into());
    let words = Value::Array(vec!["echo".into(), "a b".into(), 3.into()]);
    let got = with("cmd.run", words, map! {"python_shell" => false});
    assert_eq!(got.ret, "a b 3".into());
    let got = call(&Context::default(), "cmd.run", &["echo $((1))".into()]);
    assert_eq!(got.ret, "$((1))".into(), "no job, no shell");
    let got = with(
        "cmd.run",
        "nopecmd x".into(),
        map! {"python_shell" => false, "cwd" => "/"},
    );
    assert_eq!(
        got.ret,
        "ERROR: Unable to run command '['nopecmd', 'x']' with the context '{'cwd': '/', 'shell': False, 'stdout': -1, \
         'stderr': -2, 'with_communicate': True, 'timeout': None, 'bg': False, 'close_fds': True}', \
         reason: [Errno 2] No such file or directory: 'nopecmd'"
            .into()
    );
    let got = with(
        "cmd.run",
        "nopecmd x".into(),
        map! {"python_shell" => false, "output_loglevel" => "quiet"},
    );
    assert!(
        got.ret
            .as_str()
            .unwrap()
            .starts_with("ERROR: Unable to run command 'REDACTED' with")
    );
}

#[test]
fn bytes_that_are_not_text() {
    let got = run("cmd.run", r"printf 'a\377\303(b\n  \n'");
    assert_eq!(got.ret, "a\u{fffd}\u{fffd}(b".into());
    let got = with(
        "cmd.run",
        r"printf 'a\377\n'".into(),
        map! {"output_encoding" => "latin-1", "rstrip" => false},
    );
    assert_eq!(got.ret, "a\u{ff}\n".into());
}

#[test]
fn a_timeout_ends_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let cmd = format!("sleep 60 & echo $! > {}; wait", file.display());
    let got = with("cmd.run_all", cmd.as_str().into(), map! {"timeout" => 0.3});
    let (code, stdout, _) = fields(&got);
    assert_eq!(code, 1.into());
    assert_eq!(stdout, format!("{cmd} : Timed out after 0.3 seconds"));
    assert_eq!((got.retcode, got.success), (0, true), "as stock");
    let pid = std::fs::read_to_string(&file).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    // The orphan may remain a zombie until its new parent reaps it.
    let gone = (0..5000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        std::fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z"))
    });
    assert!(gone);
    let got = with("cmd.run", "true".into(), map! {"timeout" => "1"});
    assert!(
        got.ret
            .as_str()
            .unwrap()
            .ends_with("TimedProcTimeoutError: Error: timeout 1 must be a number\n")
    );
}

#[test]
fn output_is_bounded() {
    let spec = exec::CommandSpec {
        argv: ["/bin/sh", "-c", "yes"].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/bin:/usr/bin".into())],
        limit: 1 << 20,
        ..exec::CommandSpec::default()
    };
    let (child, readers) = exec::start(&spec).unwrap();
    let fault = exec::wait_for(&spec, child, readers).unwrap_err();
    assert_eq!(
        fault.message(),
        "The command wrote more than 1 MiB and was killed; redirect its output to a file"
    );
}

#[test]
fn environment_of_a_command() {
    let get = |cmd: &str, kwargs: Map| with("cmd.run", cmd.into(), kwargs).ret;
    assert_eq!(get("pwd", map! {"cwd" => "/"}), "/".into());
    assert_eq!(
        get("pwd", map! {"cwd" => "/nope"}),
        "ERROR: Specified cwd '/nope' either not absolute or does not exist".into()
    );
    assert_eq!(
        get("pwd", map! {"cwd" => "tmp"}),
        "ERROR: Specified cwd 'tmp' either not absolute or does not exist".into()
    );
    assert_eq!(
        get("pwd", map! {"shell" => "/nope"}),
        "ERROR: The shell /nope is not available".into()
    );
    assert_eq!(get("umask", map! {"umask" => "077"}), "0077".into());
    assert_eq!(get("umask", map! {"umask" => 77}), "0077".into());
    assert_eq!(
        get("umask", map! {"umask" => 0}),
        "ERROR: Zero umask is not allowed.".into()
    );
    assert_eq!(
        get("umask", map! {"umask" => "9"}),
        "ERROR: Invalid umask: '9'".into()
    );
    assert_eq!(get("cat", map! {"stdin" => "a\\nb"}), "a\nb".into());
    let env = map! {"A" => "b", "N" => Value::Nil, "I" => 5};
    let got = get(
        "/usr/bin/env | /usr/bin/sort",
        map! {"clean_env" => true, "env" => env, "reset_system_locale" => false, "cwd" => "/"},
    );
    assert_eq!(got, "A=b\nI=5\nN=\nPWD=/".into());
    assert_eq!(get("echo $LC_TIME $LANGUAGE", map! {}), "C C".into());
    assert!(
        get("echo $PATH", map! {"prepend_path" => "/xx"})
            .as_str()
            .unwrap()
            .starts_with("/xx:")
    );
    assert_eq!(
        get("id", map! {"runas" => "nosuchuser"}),
        "ERROR: User 'nosuchuser' is not available".into()
    );
}

#[test]
fn with_a_terminal() {
    let all = |line: &str, mut kwargs: Map| {
        kwargs.set("use_vt", true);
        kwargs.set("python_shell", true);
        let got = with("cmd.run_all", line.into(), kwargs).ret;
        let got = got.as_map().unwrap();
        let text = |key| got.str(key).unwrap().to_owned();
        (text("stdout"), text("stderr"), got.int("retcode").unwrap())
    };
    let (stdout, stderr, code) = all(
        "printf 'a\\nb  \\n\\n'; echo err >&2; stty size; test -t 2 && exit 3",
        map! {},
    );
    assert_eq!(
        (stdout.as_str(), stderr.as_str(), code),
        ("a\nb  \n\n24 80\n", "err\n", 3)
    );
    // Input is at its end, or what was given.
    assert_eq!(all("cat; echo end", map! {}).0, "end\n");
    assert_eq!(all("cat", map! {"stdin" => "in"}).0, "in");
    // As much as fits in no buffer.
    let (stdout, _, code) = all("head -c 300000 /dev/zero | tr '\\0' x", map! {});
    assert_eq!((stdout.len(), code), (300_000, 0));
    let (stdout, _, code) = all("sleep 1000", map! {"timeout" => 1});
    assert_eq!(code, 1);
    assert!(stdout.ends_with("Timed out after 1 seconds"), "{stdout}");
}

#[test]
fn forbidden_commands() {
    let mut ctx = ctx();
    std::sync::Arc::make_mut(&mut ctx.opts).set("cmd_blacklist_glob", vec!["rm *".to_owned()]);
    let got = call(&ctx, "cmd.run", &["rm -rf /nope".into()]);
    assert_eq!(
        got.ret,
        "ERROR: The shell command \"rm -rf /nope\" is not permitted".into()
    );
    std::sync::Arc::make_mut(&mut ctx.opts).set("cmd_whitelist_glob", vec!["echo *".to_owned()]);
    assert!(call(&ctx, "cmd.run", &["echo x".into()]).success);
    assert!(!call(&ctx, "cmd.run", &["true".into()]).success);
}

#[test]
fn unusual_commands() {
    assert_eq!(run("cmd.run", "nopecmd x").retcode, 127);
    let last = |o: CallOutcome| {
        o.ret
            .as_str()
            .unwrap()
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        last(run("cmd.run", " ")),
        "IndexError: list index out of range"
    );
    let got = with("cmd.run", "echo 'a".into(), map! {"python_shell" => false});
    assert_eq!(last(got), "ValueError: No closing quotation");
    let got = call(&ctx(), "cmd.run", &["FOO=b".into()]);
    assert!(got.ret.as_str().unwrap().starts_with(
        "Passed invalid arguments to cmd.run: run() missing 1 required positional argument: 'cmd'"
    ));
}

#[test]
fn in_the_background() {
    let got = run("cmd.run_bg", "true");
    assert!(got.ret.as_map().unwrap().int("pid").unwrap() > 1);
    let got = with("cmd.run_all", "true".into(), map! {"bg" => true});
    assert_eq!(fields(&got).0, Value::Nil);
    assert_eq!((got.retcode, got.success), (0, true));
}

#[test]
fn scripts_and_code() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sh");
    std::fs::write(&path, "#!/bin/sh\necho \"$#:$1:$2\"; echo e >&2; exit 5\n").unwrap();
    let path = path.to_str().unwrap();
    let script = |args: Value| {
        with(
            "cmd.script",
            path.into(),
            map! {"args" => args, "cwd" => dir.path().to_str().unwrap()},
        )
    };
    assert_eq!(
        fields(&script("a b".into())),
        (5.into(), "2:a:b".into(), "e".into())
    );
    assert_eq!(
        fields(&script(vec!["a b".to_owned(), "c".to_owned()].into())).1,
        "2:a b:c"
    );
    assert_eq!(fields(&script(Value::Nil)).1, "0::");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "cleaned up"
    );
    let got = with("cmd.script", "/nope.sh".into(), map! {});
    assert_eq!(
        got.ret.as_map().unwrap().get("cache_error"),
        Some(&true.into())
    );
    let got = call(
        &ctx(),
        "cmd.exec_code",
        &[
            "sh".into(),
            "echo hi $1; exit 3".into(),
            "/".into(),
            vec!["A1".to_owned()].into(),
        ],
    );
    assert_eq!((got.ret, got.retcode), ("hi A1".into(), 3));
}

#[test]
fn programs() {
    let get = |fun: &str, name: &str| call(&ctx(), fun, &[name.into()]).ret;
    assert_eq!(get("cmd.has_exec", "sh"), true.into());
    assert_eq!(get("cmd.has_exec", "nopex"), false.into());
    assert_eq!(get("cmd.which", "nopex"), Value::Nil);
    assert_eq!(get("cmd.which", "/bin/sh"), "/bin/sh".into());
}

/// Changing ids affects the whole process, so this test runs in a child process.
#[test]
#[ignore = "run by another_user"]
fn another_user_alone() {
    let get = |cmd: &str| with("cmd.run", cmd.into(), map! {"runas" => "daemon"}).ret;
    let user = nix::unistd::User::from_name("daemon").unwrap().unwrap();
    let want = format!("{0} {0} {1} {1}", user.uid, user.gid);
    assert_eq!(
        get("echo $(id -u) $(id -ru) $(id -g) $(id -rg)"),
        want.into()
    );
    assert_eq!(
        get("echo $USER $HOME"),
        format!("daemon {}", user.dir.display()).into()
    );
    assert_eq!(
        get("grep -c 'Uid:.*\\b0\\b' /proc/self/status"),
        "0".into(),
        "no way back"
    );
    assert!(nix::unistd::geteuid().is_root());
    let got = with("cmd.run", "id -gn".into(), map! {"group" => "daemon"}).ret;
    assert_eq!(got, "daemon".into());
}

#[test]
fn another_user() {
    let there = |name: &str| matches!(nix::unistd::User::from_name(name), Ok(Some(_)));
    if !nix::unistd::geteuid().is_root() || !there("daemon") {
        return;
    }
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "execution::cmd::tests::another_user_alone",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

/// Nothing of ours but the three standard streams, whether its owner said so or not, and no terminal.
#[test]
fn commands_get_no_descriptors() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(&reader, flags).unwrap();
    for kwargs in [map! {}, map! {"use_vt" => true}, map! {"runas" => "daemon"}] {
        if kwargs.contains("runas") && !nix::unistd::geteuid().is_root() {
            continue;
        }
        let mut kwargs = kwargs;
        kwargs.set("python_shell", true);
        kwargs.set("cwd", "/");
        // The shell's own for the directory is among them.
        let line = "exec ls /proc/self/fd";
        let got = with("cmd.run", line.into(), kwargs).ret;
        let got: Vec<&str> = got.as_str().unwrap().split_whitespace().collect();
        assert_eq!(got, ["0", "1", "2", "3"]);
    }
}

/// As in stock, a command of a user may start in a directory that the user cannot reach, but not by the user's own links.
#[test]
fn a_user_is_led_to_directories_by_root_alone() {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    let user = nix::unistd::User::from_name("nobody").unwrap();
    let (Some(user), true) = (user, nix::unistd::geteuid().is_root()) else {
        eprintln!("skipped: needs root and the account nobody");
        return;
    };
    let top = tempfile::tempdir().unwrap();
    let [closed, inside, theirs] =
        ["closed", "closed/inside", "theirs"].map(|p| top.path().join(p));
    for (dir, mode) in [(&closed, 0o700), (&inside, 0o711), (&theirs, 0o755)] {
        std::fs::create_dir(dir).unwrap();
        std::fs::set_permissions(dir, PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(top.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let uid = Some(user.uid.as_raw());
    chown(&theirs, uid, None).unwrap();
    let [link, own] = ["link", "own"].map(|name| theirs.join(name));
    symlink(&inside, &link).unwrap();
    symlink(top.path(), &own).unwrap();
    lchown(&link, uid, None).unwrap();
    lchown(&own, uid, None).unwrap();
    let pwd = |cwd: &std::path::Path| {
        let kwargs = map! {"runas" => "nobody", "cwd" => cwd.to_str().unwrap()};
        let ret = with("cmd.run", "/bin/pwd".into(), kwargs).ret;
        ret.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(pwd(&inside), inside.to_str().unwrap());
    assert!(pwd(&link).contains("Permission denied"), "{}", pwd(&link));
    assert_eq!(pwd(&own), top.path().to_str().unwrap());
}
