//! Binding, errors and `test.*`; expected texts are from the stock 3008.3 minion.

use super::*;
use halite_wire::map;
use std::sync::Arc;

fn kw(map: Map) -> Value {
    let mut out = map! {"__kwarg__" => true};
    out.0.extend(map.0);
    out.into()
}

fn run(fun: &str, args: &[Value]) -> CallOutcome {
    call(&Context::default(), fun, args)
}

fn first_line(outcome: &CallOutcome) -> &str {
    outcome.ret.as_str().unwrap().lines().next().unwrap()
}

#[test]
fn argument_errors_read_as_stock() {
    let cases: &[(&str, &[Value], &str)] = &[
        (
            "test.ping",
            &[1.into()],
            "Passed invalid arguments to test.ping: ping() takes 0 positional arguments but 1 was given",
        ),
        (
            "test.echo",
            &[],
            "Passed invalid arguments to test.echo: echo() missing 1 required positional argument: 'text'",
        ),
        (
            "test.echo",
            &["a".into(), "b".into()],
            "Passed invalid arguments to test.echo: echo() takes 1 positional argument but 2 were given",
        ),
        (
            "test.echo",
            &["a=b".into()],
            "ERROR executing 'test.echo': The following keyword arguments are not valid: a=b",
        ),
        (
            "test.echo",
            &["x".into(), kw(map! {"text" => "y"})],
            "Passed invalid arguments to test.echo: echo() got multiple values for argument 'text'",
        ),
        (
            "test.echo",
            &[
                "x".into(),
                kw(
                    map! {"foo" => map! {"a" => vec![1.into(), Value::Nil, true.into(), "q'".into(), 1.5.into()]}, "z" => 1},
                ),
            ],
            "ERROR executing 'test.echo': The following keyword arguments are not valid: foo={'a': [1, None, True, \"q'\", 1.5]}, z=1",
        ),
        (
            "test.cross_test",
            &[],
            "Passed invalid arguments to test.cross_test: cross_test() missing 1 required positional argument: 'func'",
        ),
        (
            "test.cross_test",
            &[1.into(), 2.into(), 3.into()],
            "Passed invalid arguments to test.cross_test: cross_test() takes from 1 to 2 positional arguments but 3 were given",
        ),
        (
            "test.true",
            &[1.into()],
            "Passed invalid arguments to test.true: true_() takes 0 positional arguments but 1 was given",
        ),
        ("test.nope", &[], "'test.nope' is not available."),
        ("nope", &[], "'nope' is not available."),
    ];
    for (fun, args, text) in cases {
        let got = run(fun, args);
        assert_eq!(first_line(&got), *text);
        assert_eq!((got.retcode, got.success), (1, false), "{fun}");
        assert_eq!(got.out.as_deref(), Some("nested"));
    }
}

#[test]
fn a_wrong_call_shows_the_documentation() {
    let got = run("test.echo", &[]);
    assert!(got.ret.as_str().unwrap().ends_with("Returns its argument."));
    let got = run("test.pin", &[]);
    let docs = got.ret.as_map().unwrap();
    assert!(docs.str("test.ping").is_some());
    assert_eq!(docs.str("test.pin"), Some("'test.pin' is not available."));
}

#[test]
fn keywords_may_come_as_text() {
    assert_eq!(run("test.echo", &["text=b".into()]).ret, "b".into());
    assert_eq!(run("test.echo", &["text=5".into()]).ret, 5.into());
}

#[test]
fn results_set_retcode_and_success() {
    let code = |fun: &str, args: &[Value]| {
        let got = run(fun, args);
        (got.retcode, got.success)
    };
    assert_eq!(code("test.ping", &[]), (0, true));
    assert_eq!(code("test.retcode", &[]), (42, false));
    assert_eq!(code("test.retcode", &[0.into()]), (0, true));
    assert_eq!(
        code("test.outputter", &[map! {"result" => false}.into()]),
        (1, false)
    );
    assert_eq!(
        code("test.outputter", &[map! {"success" => 0}.into()]),
        (1, false)
    );
    assert_eq!(code("test.false", &[]), (0, true));
}

#[test]
fn open_ended_functions_see_the_job() {
    let ctx = Context {
        job: Some(map! {"fun" => "test.kwarg", "jid" => "20260101000000000001"}),
        ..Context::default()
    };
    let got = call(&ctx, "test.kwarg", &[kw(map! {"a" => 1})]);
    assert_eq!(
        got.ret,
        map! {"a" => 1, "__pub_fun" => "test.kwarg", "__pub_jid" => "20260101000000000001"}.into()
    );
    let got = call(
        &ctx,
        "test.arg_clean",
        &[1.into(), kw(map! {"a" => 1, "__b" => 1})],
    );
    assert_eq!(
        got.ret,
        map! {"args" => vec![Value::Int(1)], "kwargs" => map! {"a" => 1}}.into()
    );
    assert!(call(&ctx, "test.echo", &["x".into()]).success);
}

#[test]
fn sums_of_any_length() {
    let fib = |n: i32| run("test.fib", &[n.into()]).ret.as_array().unwrap()[0].clone();
    assert_eq!(fib(0), 0.into());
    assert_eq!(fib(10), 55.into());
    assert_eq!(fib(100), "354224848179261915075".into());
    let got = run("test.collatz", &[3.into()]).ret;
    let steps: Vec<Value> = vec![
        3.into(),
        10.into(),
        5.0.into(),
        16.0.into(),
        8.0.into(),
        4.0.into(),
        2.0.into(),
    ];
    assert_eq!(got.as_array().unwrap()[0], steps.into());
}

#[test]
fn exceptions_keep_their_last_line() {
    let got = run("test.exception", &["Oh noes!".into()]);
    let text = got.ret.as_str().unwrap();
    assert!(text.starts_with(
        "The minion function caused an exception: Traceback (most recent call last):\n"
    ));
    assert!(text.ends_with("\nException: Oh noes!\n"));
    assert!(
        run("test.fib", &["abc".into()])
            .ret
            .as_str()
            .unwrap()
            .contains("ValueError: invalid literal for int() with base 10: 'abc'")
    );
}

#[test]
fn functions_call_functions() {
    let got = run(
        "test.cross_test",
        &["test.echo".into(), Value::Array(vec!["x".into()])],
    );
    assert_eq!(got.ret, "x".into());
    let got = run("test.try", &["test.exception".into()]);
    assert_eq!((got.ret, got.success), (Value::Nil, true));
    let got = run("test.try", &["test.echo".into(), kw(map! {"text" => "t"})]);
    assert_eq!(got.ret, "t".into());
    let nested = Value::Array(vec!["test.retcode".into()]);
    assert_eq!(
        run("test.cross_test", &["test.cross_test".into(), nested]).retcode,
        42
    );
}

#[test]
fn argspec_and_lists() {
    let got = run("sys.argspec", &["test.retcode".into()]).ret;
    let want = map! {"test.retcode" => map! {
        "args" => vec![Value::from("code")], "defaults" => vec![Value::Int(42)],
        "varargs" => Value::Nil, "kwargs" => Value::Nil,
    }};
    assert_eq!(got, want.into());
    let got = run("sys.list_functions", &["test.ec*".into()]).ret;
    assert_eq!(got, vec!["test.echo".to_owned()].into());
    assert_eq!(
        run("sys.list_modules", &["tes*".into()]).ret,
        vec!["test".to_owned()].into()
    );
    assert_eq!(
        run("sys.list_functions", &["tes".into()]).ret,
        Value::Array(vec![])
    );
}

/// Duplicate functions, or required arguments after optional ones, are bugs in a table.
#[test]
fn tables_are_sound() {
    let all = functions();
    assert!(all.windows(2).all(|w| w[0].0 != w[1].0));
    for (name, f) in all {
        assert!(
            f.args
                .windows(2)
                .all(|w| w[0].default.is_none() || w[1].default.is_some()),
            "{name}"
        );
        assert!(!f.doc.is_empty(), "{name}");
    }
}

fn with_data() -> Context {
    let inner: Value = map! {"x" => "y"}.into();
    Context {
        pillar: Arc::new(map! {
            "a" => map! {"b" => "c"}, "l" => vec![1.into(), 2.into(), inner], "s" => "str", "n" => Value::Nil, "e" => "",
        }),
        grains: Arc::new(
            map! {"os" => "Debian", "os_family" => "Debian", "id" => "t1", "num_cpus" => 2},
        ),
        opts: Arc::new(map! {"id" => "t1", "host.a" => 1}),
        ..Context::default()
    }
}

#[test]
fn pillar_values_are_masked() {
    let ctx = with_data();
    let get = |fun: &str, args: &[Value]| call(&ctx, fun, args).ret;
    let plain = || kw(map! {"unmask" => true});
    assert_eq!(get("pillar.get", &["a:b".into()]), "**********".into());
    assert_eq!(get("pillar.get", &["a:b".into(), plain()]), "c".into());
    assert_eq!(get("pillar.get", &["a:x".into()]), "".into());
    assert_eq!(get("pillar.get", &["a:x".into(), Value::Nil]), Value::Nil);
    let merge = kw(map! {"default" => map! {"z" => 1}, "merge" => true, "unmask" => true});
    assert_eq!(
        get("pillar.get", &["a".into(), merge]),
        map! {"z" => 1, "b" => "c"}.into()
    );
    let want = map! {"a:b" => "**********", "s" => "**********", "zz" => "", "n" => Value::Nil};
    assert_eq!(
        get(
            "pillar.item",
            &["a:b".into(), "s".into(), "zz".into(), "n".into()]
        ),
        want.into()
    );
    assert_eq!(get("pillar.raw", &["a".into()]), map! {"b" => "c"}.into());
    assert_eq!(
        get("pillar.keys", &["a".into()]),
        vec!["b".to_owned()].into()
    );
    let text = get("pillar.keys", &["zz".into()]);
    assert!(
        text.as_str()
            .unwrap()
            .ends_with("KeyError: 'Pillar key not found: zz'\n")
    );
    let encrypted = map! {"pillar" => map! {"a" => 1}, "pillar_enc" => "nacl"};
    let answer = call(&ctx, "pillar.items", &[kw(encrypted)]).ret;
    assert!(answer.as_str().unwrap().contains("'nacl' is not a valid"));
}

#[test]
fn grains_and_configuration() {
    let ctx = with_data();
    let get = |fun: &str, args: &[Value]| call(&ctx, fun, args).ret;
    assert_eq!(get("grains.get", &["nope".into(), "D".into()]), "D".into());
    assert_eq!(
        get("grains.item", &["os".into(), "nope".into()]),
        map! {"os" => "Debian", "nope" => ""}.into()
    );
    assert_eq!(
        get("grains.item", &["id".into(), kw(map! {"sanitize" => true})]),
        map! {"id" => "MINION.DOMAINNAME"}.into()
    );
    assert_eq!(get("grains.has_value", &["nope".into()]), false.into());
    assert_eq!(
        get("grains.equals", &["num_cpus".into(), 2.into()]),
        true.into()
    );
    assert_eq!(
        get(
            "grains.filter_by",
            &[map! {"Deb*" => 1, "default" => 2}.into()]
        ),
        1.into()
    );
    assert_eq!(
        get("grains.filter_by", &[map! {"X" => 1}.into()]),
        Value::Nil
    );
    assert_eq!(get("config.get", &["id".into()]), "t1".into());
    assert_eq!(get("config.get", &["os".into()]), "Debian".into());
    assert_eq!(get("config.get", &["a:b".into()]), "c".into());
    assert_eq!(
        get("config.get", &["test.foo".into()]),
        "unconfigured".into()
    );
    assert_eq!(
        get("config.option", &["a".into()]),
        map! {"b" => "c"}.into()
    );
    assert_eq!(
        get("config.dot_vals", &["host".into()]),
        map! {"host.a" => 1}.into()
    );
}

#[test]
fn values_are_neither_lines_nor_options() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file").to_string_lossy().into_owned();
    let ctx = Context {
        opts: Arc::new(map! {"hosts.file" => file.as_str()}),
        ..Context::default()
    };
    let touch = format!("--upload-pack=touch {file};");
    let here = dir.path().to_str().unwrap();
    let root = kw(map! {"root" => here});
    let (many, config) = ("a\nb", kw(map! {"config" => file.as_str()}));
    let jobs = "true\n* * * * * evil";
    let cases: &[(&str, &[Value], &str)] = &[
        (
            "hosts.add_host",
            &["1.2.3.4".into(), many.into()],
            "'alias' may not contain line breaks",
        ),
        (
            "hosts.set_comment",
            &["1.2.3.4".into(), many.into()],
            "'comment' may not contain line breaks",
        ),
        (
            "mount.set_fstab",
            &[many.into(), "/d".into(), "ext4".into(), config.clone()],
            "'name' may not",
        ),
        (
            "sysctl.persist",
            &[many.into(), 1.into(), config],
            "'name' may not contain line breaks",
        ),
        (
            "shadow.set_password",
            &["nobody".into(), many.into(), root.clone()],
            "'password' may not",
        ),
        (
            "shadow.set_password",
            &["nobody".into(), "a:b".into(), root],
            "may not contain ':'",
        ),
        (
            "cron.set_env",
            &["no such".into(), "A".into(), many.into()],
            "'value' may not contain line breaks",
        ),
        (
            "cron.set_special",
            &["no such".into(), many.into(), "true".into()],
            "'special' may not contain line breaks",
        ),
        (
            "cron.set_job",
            &["no such", "*", "*", "*", "*", "*", jobs].map(Value::from),
            "",
        ),
        (
            "ssh.set_known_host",
            &["nobody".into(), many.into()],
            "'hostname' may not contain",
        ),
        (
            "ssh.set_known_host",
            &["nobody".into(), "-fx".into()],
            "'hostname' may not be an option",
        ),
        (
            "git.ls_remote",
            &[here.into(), touch.as_str().into(), here.into()],
            "'remote' may not be an option",
        ),
        (
            "git.remote_refs",
            &[touch.as_str().into(), kw(map! {"filter" => here})],
            "'url' may not be an option",
        ),
        (
            "git.merge_base",
            &[here.into(), "HEAD,--all".into()],
            "'refs' may not be an option",
        ),
        (
            "git.rebase",
            &[here.into(), "HEAD --exec=x".into()],
            "'rev' may not be an option",
        ),
        (
            "service.show",
            &["-Hevil".into()],
            "'name' may not be an option",
        ),
        (
            "kmod.load",
            &["loop -C/evil".into()],
            "'mod' may not be an option",
        ),
        (
            "sysctl.get",
            &[kw(map! {"name" => "kernel.domainname=evil"})],
            "has no '='",
        ),
    ];
    // Dir::Bin::dpkg is a program that apt-cache starts.
    let debian = Context {
        grains: Arc::new(map! {"os" => "Debian", "os_family" => "Debian"}),
        ..Context::default()
    };
    let outcome = call(
        &debian,
        "pkg.latest_version",
        &["-oDir::Bin::dpkg=/x".into()],
    );
    let said = outcome.ret.as_str().unwrap_or_default();
    assert!(said.contains("may not be an option"), "{:?}", outcome.ret);
    for (fun, args, text) in cases {
        let outcome = call(&ctx, fun, args);
        let said = outcome.ret.as_str().unwrap_or_default();
        assert!(said.contains(text), "{fun}: {:?}", outcome.ret);
        assert!(!dir.path().join("file").exists(), "{fun}");
    }
}
