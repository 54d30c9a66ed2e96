//! What users with few rights try.

use super::*;

/// Arguments are checked as the function gets them.
#[test]
fn arguments_of_functions_are_parsed_once() {
    const EXECUTE: &[&str] = &[
        "tgt",
        "fun",
        "?arg",
        "?timeout",
        "?tgt_type",
        "?ret",
        "?jid",
        "?kwarg",
        "**kwargs",
    ];
    let rule = |fun: &str, conditions: Map| {
        let rules = map! {"@runner" => vec![Value::Map(map! {fun => conditions})]};
        AuthList::parse(&vec![Value::Map(rules)].into())
    };
    let allows = |list: &AuthList, fun: &str, low: Map, names: &[&str]| {
        list.special(CallApi::Runner, &declared(fun, low, names)) == rules::Special::Allowed
    };
    // A text with an equals sign is no keyword here, so it takes a place.
    let first = rule("key.finger", map! {"args" => words(&["web.*"])});
    let low = |args: &[&str]| map! {"arg" => words(args)};
    assert!(allows(&first, "key.finger", low(&["web1"]), &["match"]));
    assert!(!allows(
        &first,
        "key.finger",
        low(&["a=b,evil9", "web1"]),
        &["match"]
    ));
    // A function with an argument `arg` of its own hides neither target nor function.
    let list = rule(
        "salt.execute",
        map! {"kwargs" => map! {"tgt" => "web", "fun" => r"test\."}},
    );
    let execute = |low: Map| allows(&list, "salt.execute", low, EXECUTE);
    assert!(execute(
        map! {"tgt" => "web1", "fun" => "test.echo", "arg" => words(&["x"])}
    ));
    assert!(execute(
        map! {"kwarg" => Map::new(), "tgt" => "web1", "fun" => "test.echo"}
    ));
    for (tgt, fun) in [("db1", "test.echo"), ("web1", "cmd.run")] {
        for arg in ["arg", "kwarg", "other"] {
            let value: Value = if arg == "kwarg" {
                Map::new().into()
            } else {
                words(&["web1", "test.echo"]).into()
            };
            assert!(
                !execute(map! {"tgt" => tgt, "fun" => fun, arg => value}),
                "{tgt} {fun} {arg}"
            );
        }
    }
    // What it adds to its job is not covered by conditions on other arguments.
    let added = |key: &str| map! {"tgt" => "web1", "fun" => "test.echo", key => "x"};
    assert!(execute(added("delimiter")));
    for addition in additions::ADDITIONS {
        assert!(!execute(added(addition)), "{addition}");
    }
    // One value for each keyword.
    let twice = Map(vec![
        ("tgt".into(), "web1".into()),
        ("fun".into(), "test.echo".into()),
        ("tgt".into(), "db1".into()),
    ]);
    assert!(!execute(twice));
}

/// A publication is checked as minions read it.
#[test]
fn arguments_of_jobs_are_those_that_minions_see() {
    let rule = |conditions: Map| {
        let rules = map! {"*" => vec![Value::Map(map! {"test.arg" => conditions})]};
        AuthList::parse(&vec![Value::Map(rules)].into())
    };
    let allows = |list: &AuthList, args: Vec<Value>| {
        let calls = Call::of_publication(&"test.arg".into(), &args.into()).unwrap();
        list.publication(&calls, &[], &FREE, &mut |_| false) != Reach::Nobody
    };
    let word = rule(map! {"args" => words(&[r"\w+$"])});
    assert!(allows(&word, vec!["w\u{e9}b1".into()]));
    assert!(
        !allows(&word, vec!["we\u{301}b".into()]),
        "a mark is no letter to Python"
    );
    let named = rule(map! {"kwargs" => map! {"host" => "web"}});
    let keywords = |mark: Value| vec![Value::Map(map! {"__kwarg__" => mark, "host" => "web1"})];
    assert!(allows(&named, keywords(true.into())));
    for mark in [
        1.into(),
        "yes".into(),
        1.5.into(),
        Value::Nil,
        words(&["x"]).into(),
    ] {
        assert!(!allows(&named, keywords(mark)));
    }
    assert!(allows(&named, vec!["host=web1".into()]));
    assert!(
        allows(&named, vec!["host='web1'".into()]),
        "as the minion reads it"
    );
    assert!(!allows(&named, vec!["host='db1'".into()]));
    assert!(!allows(&named, vec!["host=web1".into(), "host=db1".into()]));
    let second = rule(map! {"args" => vec![Value::Nil, "web".into()]});
    assert!(!allows(&second, vec!["db1".into(), "a\u{2167}=x".into()]));
    assert!(allows(
        &second,
        vec!["db1".into(), "web1".into(), "a\u{2167}=x".into()]
    ));
    assert!(
        !allows(&second, vec!["db1".into(), "\u{b2}=x".into(), "db1".into()]),
        "a keyword"
    );
}

/// Returners, executors and the like come with no permission for a function.
#[test]
fn additions_need_a_permission_of_their_own() {
    let reach = |list: Value, fun: &str, additions: &[&str]| {
        let calls = Call::of_publication(&fun.into(), &Value::Nil).unwrap();
        let list = AuthList::parse(&list);
        list.publication(&calls, additions, &FREE, &mut |scope| scope == "web*")
    };
    let scoped = |list: &[&str]| Value::from(vec![Value::Map(map! {"web*" => words(list)})]);
    for addition in additions::ADDITIONS {
        let of = |list: Value, fun: &str| reach(list, fun, &[addition]);
        let own = additions::permission(addition);
        for fun in ["test.ping", "saltutil.find_job"] {
            for list in [
                words(&["test.*"]).into(),
                words(&["test.*", "[a-z_@].*", "(?!cmd).*", ".+", "@runner", "@*"]).into(),
                scoped(&["test.*", "..*", "@"]),
                Value::from(Vec::<Value>::new()),
            ] {
                assert_eq!(of(list, fun), Reach::Nobody, "{addition} {fun}");
            }
            assert_eq!(of(words(&[".*"]).into(), fun), Reach::Everybody);
            assert_eq!(of(words(&["test.*", &own]).into(), fun), Reach::Everybody);
            assert_eq!(of(scoped(&["test.*", &own]), fun), Reach::TheseMinions);
            assert_eq!(of(scoped(&[".*"]), fun), Reach::TheseMinions);
        }
        let elsewhere = vec![Value::Map(map! {"db*" => words(&[own.as_str(), ".*"])})];
        assert_eq!(of(elsewhere.into(), "saltutil.find_job"), Reach::Nobody);
        let conditional =
            map! {"*" => vec![Value::Map(map! {".*" => map! {"args" => words(&["x"])}})]};
        assert_eq!(
            of(vec![Value::Map(conditional)].into(), "saltutil.find_job"),
            Reach::Nobody
        );
    }
    let one = words(&["test.*", "@ret"]);
    assert_eq!(
        reach(one.into(), "test.ping", &["ret", "ret_kwargs"]),
        Reach::Nobody
    );
}

/// Neither logs nor the table of failures grow with the length of a name.
#[test]
fn names_are_bounded_where_they_come_in() {
    let (_dir, mut access) = with_file(Map::new(), map! {"*" => words(&[".*"])});
    let long = "x".repeat(4 << 20);
    for fields in [
        login("file", &long, "geheim"),
        login(&long, "fred", "geheim"),
        map! {"token" => "x", "username" => long.as_str()},
    ] {
        let unproven = access.authenticate(&Map::new(), &fields, "").unwrap_err();
        assert!(unproven.user.len() + unproven.why.len() < 400);
        assert_eq!(access.mk_token(&fields, ""), Value::from(""));
    }
    let load = map! {"user" => long.as_str(), "key" => "x"};
    let unproven = access.authenticate(&load, &Map::new(), "").unwrap_err();
    assert!(unproven.user.len() + unproven.why.len() < 400);
    assert!(!access.config.failed_logins().exists(), "nothing was tried");
}

/// An expression that cannot be evaluated on a name does not let it pass.
#[test]
fn a_blacklist_gives_nobody_the_benefit_of_the_doubt() {
    let slow = "a((?=)|(?=)){18}z";
    let list = Blacklist::parse(&map! {"users" => words(&[slow]), "modules" => words(&[slow])});
    let name = "a".repeat(200);
    assert!(list.user(&name) && list.function(&name.as_str().into()));
    assert!(!list.user("fred") && !list.function(&"test.ping".into()));
    let acl = map! {slow => words(&[".*"])};
    assert!(roles::publisher(&acl, &name).is_none());
}
