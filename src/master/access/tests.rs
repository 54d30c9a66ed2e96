use super::rules::{Call, Form};
use super::*;
use halite_crypto::KeyString;
use halite_target::{Inventory, MinionId};
use halite_wire::map;
use std::collections::HashMap;
use std::sync::Arc;

/// Questions with the verdicts of stock Salt, made by `tests/data/make_access_cases.py`.
fn cases(part: &str) -> Vec<Map> {
    let all: Value =
        serde_json::from_str(include_str!("../../../tests/data/access_cases.json")).unwrap();
    let part = all.as_map().unwrap().get(part).unwrap().clone();
    let cases: Vec<Map> = part
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case.as_map().unwrap().clone())
        .collect();
    assert!(cases.len() > 5);
    cases
}

fn wanted(case: &Map) -> &Value {
    case.get("ours").or(case.get("stock")).unwrap()
}

fn name(case: &Map) -> &str {
    case.str("name").unwrap()
}

#[derive(Default)]
struct Fleet {
    ids: Vec<MinionId>,
    grains: HashMap<String, Map>,
    no_cache: bool,
}

impl Fleet {
    fn of(ids: &[&str]) -> Fleet {
        Fleet {
            ids: ids.iter().map(|id| id.parse().unwrap()).collect(),
            ..Fleet::default()
        }
    }
}

impl Inventory for Fleet {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }
    fn contains(&self, id: &str) -> bool {
        self.ids.iter().any(|own| own.as_str() == id)
    }
    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.grains.get(id.as_str()).cloned().map(Arc::new)
    }
    fn pillar(&self, _: &MinionId) -> Option<Arc<Map>> {
        None
    }
    fn caches_data(&self) -> bool {
        !self.no_cache
    }
}

#[test]
fn publications_as_stock_salt_decides() {
    let fleet = Fleet::of(&["db1", "web1", "web2"]);
    let groups = map! {"webs" => "web*"};
    for case in cases("publish") {
        let list = AuthList::parse(case.get("list").unwrap());
        let minions = case.get("minions").unwrap().str_list();
        let mut covers = |scope: &str| scope::covers(scope, &minions, &fleet, &groups);
        let calls = Call::of_publication(case.get("fun").unwrap(), case.get("arg").unwrap());
        let reach = list.publication(&calls.unwrap(), &FREE, &mut covers);
        let allowed = Value::from(reach != Reach::Nobody);
        assert_eq!(&allowed, wanted(&case), "{}", name(&case));
    }
}

#[test]
fn runners_and_wheels_as_stock_salt_decides() {
    for case in cases("special") {
        let list = AuthList::parse(case.get("list").unwrap());
        let form = match case.str("form").unwrap() {
            "runner" => Form::Runner,
            _ => Form::Wheel,
        };
        let args = case.get("args").and_then(Value::as_map).unwrap();
        let call = Call::of_low(case.str("fun").unwrap(), args);
        let verdict = match list.special(form, &call) {
            rules::Special::Allowed => Value::from(true),
            rules::Special::Denied => false.into(),
            rules::Special::Malformed => "SaltInvocationError".into(),
        };
        assert_eq!(&verdict, wanted(&case), "{}", name(&case));
    }
}

#[test]
fn users_and_groups_as_stock_salt_decides() {
    for case in cases("fill") {
        let list = roles::external(
            case.get("users").and_then(Value::as_map).unwrap(),
            case.str("user").unwrap(),
            &case.get("groups").unwrap().str_list(),
            case.get("permissive").and_then(Value::as_bool).unwrap(),
        );
        assert_eq!(&list.to_value(), wanted(&case), "{}", name(&case));
    }
    let file = map! {"^filename" => "x", "fred" => vec!["a".to_owned()]};
    assert!(roles::external(&file, "^filename", &[], false).is_empty());
}

#[test]
fn blacklists_as_stock_salt_decides() {
    for case in cases("black") {
        let list = Blacklist::parse(case.get("blacklist").and_then(Value::as_map).unwrap());
        let refused =
            list.user(case.str("user").unwrap()) || list.function(case.get("fun").unwrap());
        assert_eq!(&Value::from(refused), wanted(&case), "{}", name(&case));
    }
    let broken: [Map; 3] = [
        map! {"users" => 5},
        map! {"modules" => map! {"cmd" => "run"}},
        map! {"modulse" => vec!["cmd.*".to_owned()]},
    ];
    for option in broken {
        let list = Blacklist::parse(&option);
        assert!(list.is_broken() && list.user("fred"), "{option:?}");
    }
}

#[test]
fn publisher_acl_as_stock_salt_decides() {
    for case in cases("local") {
        let acl = case.get("acl").and_then(Value::as_map).unwrap();
        let list = roles::publisher(acl, case.str("user").unwrap());
        let list = list.map_or(Value::Array(Vec::new()), |list| list.to_value());
        assert_eq!(&list, wanted(&case), "{}", name(&case));
    }
}

#[test]
fn what_is_not_known_of_a_minion_grants_nothing() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.grains.insert("a".into(), map! {"os" => "Debian"});
    let covers = |fleet: &Fleet, scope: &str, ids: &[&str]| {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        scope::covers(scope, &ids, fleet, &Map::new())
    };
    assert!(covers(&fleet, "G@os:Debian", &["a"]));
    assert!(covers(&fleet, "not G@os:Windows", &["a"]));
    for scope in ["G@os:Debian", "not G@os:Windows", "S@10.0.0.0/8", "I@x:y"] {
        assert!(!covers(&fleet, scope, &["b"]), "{scope}");
    }
    fleet.no_cache = true;
    assert!(
        !covers(&fleet, "G@os:Debian", &["a"]),
        "stock Salt takes it for everybody"
    );
    assert!(covers(&fleet, "a or b", &["a", "b"]));
}

/// A master's directory with the key files of some users.
fn access(options: Map, users: &[&str]) -> (tempfile::TempDir, Access, HashMap<String, String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut all = map! {
        "root_dir" => dir.path().to_str().unwrap(), "sock_dir" => "/run", "user" => "saltmaster",
        "audit_log" => "/audit",
    };
    all.0.extend(options.0);
    let config = MasterConfig::from_map(all, dir.path()).unwrap();
    std::fs::create_dir_all(&config.cachedir).unwrap();
    let mut keys = HashMap::new();
    for user in users {
        let key = KeyString::generate().as_str().to_owned();
        std::fs::write(config.client_key(user), &key).unwrap();
        keys.insert((*user).to_owned(), key);
    }
    let access = Access::new(&config, &halite_store::Stores::open(&config));
    (dir, access, keys)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

fn may(caller: &Caller, fun: &str) -> bool {
    let none = Value::Array(Vec::new());
    caller.may_publish(&fun.into(), &none, &mut |_| false) != Reach::Nobody
}

#[test]
fn a_key_file_proves_its_own_user_alone() {
    let acl =
        map! {"publisher_acl" => map! {"fred" => words(&["test.*"]), "mary" => words(&["cmd.*"])}};
    let (_dir, mut access, keys) = access(acl, &["saltmaster", "fred", "mary", "eve"]);
    let mut by = |user: &str, key: &str| {
        let load = map! {"user" => user, "key" => keys.get(key).map_or(key, String::as_str)};
        access.authenticate(&load, &Map::new(), "peer")
    };
    for user in ["saltmaster", "root", "sudo_fred", "fred", "whoever"] {
        let caller = by(user, "saltmaster").unwrap();
        assert!(may(&caller, "cmd.run") && caller.user() == user, "{user}");
    }
    let fred = by("fred", "fred").unwrap();
    assert!(may(&fred, "test.ping") && !may(&fred, "cmd.run"));
    // Stock Salt lets the key of fred act as root (CVE-2020-25592 class).
    for (user, key) in [
        ("root", "fred"),
        ("saltmaster", "fred"),
        ("sudo_root", "fred"),
        ("sudo_fred", "fred"),
        ("mary", "fred"),
        ("eve", "eve"),
        ("nobody", "fred"),
        ("fred", ""),
        ("fred", "x"),
        ("root", ""),
        ("../x/.fred", "fred"),
        ("fred\0", "fred"),
    ] {
        assert!(by(user, key).is_err(), "{user} with the key of {key}");
    }
}

#[test]
fn sudo_acl_holds_people_behind_sudo_to_their_list() {
    let acl = map! {"sudo_acl" => true, "publisher_acl" => map! {"fred" => words(&["test.*"])}};
    let (_dir, mut access, keys) = access(acl, &["saltmaster"]);
    let mut by = |user: &str| {
        let load = map! {"user" => user, "key" => keys["saltmaster"].as_str()};
        access.authenticate(&load, &Map::new(), "")
    };
    assert!(may(&by("root").unwrap(), "cmd.run"));
    let fred = by("sudo_fred").unwrap();
    assert!(may(&fred, "test.ping") && !may(&fred, "cmd.run"));
    assert!(by("sudo_mary").is_err());
}

fn with_file(options: Map, rights: Map) -> (tempfile::TempDir, Access) {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    // The password is `geheim`, the cost the lowest.
    let hash = "$2b$04$EWijeA0rZzcHNbrhgvWFsuRWCg.RppBvkhZdDDamaSIwyrtodL60i";
    std::fs::write(&users, format!("fred:{hash}\nmary:{hash}\n")).unwrap();
    let mut file = map! {"^filename" => users.to_str().unwrap(), "^filetype" => "htpasswd"};
    file.0.extend(rights.0);
    let mut all = map! {"external_auth" => map! {"file" => file}};
    all.0.extend(options.0);
    let (inner, access, _) = access(all, &[]);
    std::mem::forget(inner);
    (dir, access)
}

fn login(eauth: &str, user: &str, password: &str) -> Map {
    map! {"eauth" => eauth, "username" => user, "password" => password}
}

#[test]
fn an_unknown_system_proves_nothing() {
    let (_dir, mut access) = with_file(Map::new(), map! {"*" => words(&[".*"])});
    let good = login("file", "fred", "geheim");
    assert!(may(
        &access.authenticate(&Map::new(), &good, "").unwrap(),
        "cmd.run"
    ));
    let odd: [Map; 11] = [
        // CVE-2020-25592: any value of `eauth` was taken.
        login("", "fred", "geheim"),
        login("x", "fred", "geheim"),
        login("pam", "fred", "geheim"),
        login("^filename", "fred", "geheim"),
        login("pki", "fred", "geheim"),
        map! {"eauth" => Value::Nil, "username" => "fred", "password" => "geheim"},
        map! {"eauth" => true, "username" => "fred", "password" => "geheim"},
        map! {"eauth" => "file", "username" => "fred"},
        map! {"eauth" => "file", "password" => "geheim"},
        login("file", "fred", "Geheim"),
        login("file", "", "geheim"),
    ];
    for fields in odd {
        assert!(
            access.authenticate(&Map::new(), &fields, "").is_err(),
            "{fields:?}"
        );
        let special = access.authorize_runner(&fields, "", "").unwrap_err();
        let error = special
            .as_map()
            .unwrap()
            .get("error")
            .unwrap()
            .as_map()
            .unwrap()
            .clone();
        assert_eq!(error.str("name"), Some("EauthAuthenticationError"));
        assert_eq!(access.mk_token(&fields, ""), Value::from(""));
    }
}

#[test]
fn a_proof_of_a_certificate_is_not_enough() {
    // CVE-2024-38825: `pki` took a certificate without proof of its key. It is not supported.
    let (_dir, mut access, _) = access(
        map! {"external_auth" => map! {"pki" => map! {"*" => words(&[".*"])}}},
        &[],
    );
    let fields = login("pki", "fred", "-----BEGIN CERTIFICATE-----");
    let why = access
        .authenticate(&Map::new(), &fields, "")
        .unwrap_err()
        .why;
    assert!(why.contains("not supported"), "{why}");
    assert_eq!(faults(&access.config).len(), 1);
}

#[test]
fn clients_do_not_choose_how_they_are_checked() {
    // CVE-2016-3176: the PAM service came from the request.
    let config = access(map! {"external_auth" => map! {"pam" => Map::new()}}, &[])
        .1
        .config;
    assert_eq!(config.auth_pam_service, "login");
    let (_dir, mut access) = with_file(Map::new(), map! {"fred" => words(&[".*"])});
    let mut fields = login("file", "fred", "geheim");
    for (key, value) in [
        ("service", "other"),
        ("^filename", "/dev/null"),
        ("filename", "x"),
    ] {
        fields.set(key, value);
    }
    assert!(access.authenticate(&Map::new(), &fields, "").is_ok());
}

fn token_of(access: &mut Access, load: Map) -> (String, Map) {
    let made = access.mk_token(&load, "peer").into_map().unwrap();
    (made.str("token").unwrap().to_owned(), made)
}

#[test]
fn a_token_ends_when_it_ends() {
    // CVE-2021-3144: a token went on working after its end.
    let options = map! {"token_expire_user_override" => map! {"file" => words(&["fred"])}};
    let (_dir, mut access) = with_file(options, map! {"*" => words(&["test.*"])});
    let mut load = login("file", "fred", "geheim");
    let (good, made) = token_of(&mut access, load.clone());
    let life = |m: &Map| match (m.get("start"), m.get("expire")) {
        (Some(Value::Float(a)), Some(Value::Float(b))) => (b - a).round(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (life(&made), made.str("name"), made.str("eauth")),
        (43200.0, Some("fred"), Some("file"))
    );
    assert_eq!(
        access.get_token(&map! {"token" => good.as_str()}),
        Value::Map(made)
    );
    let caller = access
        .authenticate(&Map::new(), &map! {"token" => good.as_str()}, "")
        .unwrap();
    assert!(may(&caller, "test.ping") && !may(&caller, "cmd.run") && caller.user() == "fred");
    load.set("token_expire", 0);
    let (ended, _) = token_of(&mut access, load.clone());
    for token in [
        Value::from(ended.as_str()),
        "".into(),
        Value::Nil,
        5.into(),
        good[1..].into(),
    ] {
        let fields = map! {"token" => token.clone(), "eauth" => "file", "username" => "fred", "password" => "geheim"};
        let unproven = access.authenticate(&Map::new(), &fields, "").unwrap_err();
        assert_eq!(
            unproven.method,
            Method::Token,
            "a bad token falls back to nothing"
        );
        assert_eq!(
            access.get_token(&map! {"token" => token}),
            Value::Map(Map::new())
        );
    }
    assert_eq!(access.get_token(&Map::new()), Value::from(false));
    let mut mary = login("file", "mary", "geheim");
    mary.set("token_expire", 99_999_999);
    assert_eq!(
        life(&token_of(&mut access, mary).1),
        43200.0,
        "mary may not choose"
    );
    access.config.external_auth = Map::new();
    let fields = map! {"token" => good.as_str()};
    assert!(
        access.authenticate(&Map::new(), &fields, "").is_err(),
        "the system is off now"
    );
}

#[test]
fn permissions_may_be_kept_in_a_token() {
    let options = map! {"keep_acl_in_token" => true};
    let (_dir, mut access) = with_file(options, map! {"fred" => words(&["test.*"])});
    let (token, made) = token_of(&mut access, login("file", "fred", "geheim"));
    assert_eq!(made.get("auth_list"), Some(&words(&["test.*"]).into()));
    let Some(Value::Map(file)) = access.config.external_auth.get_mut("file") else {
        panic!()
    };
    file.set("fred", words(&[".*"]));
    let fields = map! {"token" => token.as_str()};
    let caller = access.authenticate(&Map::new(), &fields, "").unwrap();
    assert!(may(&caller, "test.ping") && !may(&caller, "cmd.run"));
    access.config.keep_acl_in_token = false;
    let caller = access.authenticate(&Map::new(), &fields, "").unwrap();
    assert!(may(&caller, "cmd.run"));
}

#[test]
fn the_blacklist_means_proven_names_too() {
    let options = map! {"publisher_acl_blacklist" => map! {"users" => words(&["fred"]), "modules" => words(&["cmd.*"])}};
    let (_dir, mut access) = with_file(options, map! {"*" => words(&[".*"])});
    let fields = login("file", "fred", "geheim");
    assert!(access.authenticate(&Map::new(), &fields, "").is_err());
    assert_eq!(access.mk_token(&fields, ""), Value::from(""));
    assert!(
        access
            .authenticate(&Map::new(), &login("file", "mary", "geheim"), "")
            .is_ok()
    );
    assert!(access.blacklisted("mary", &words(&["test.ping", "cmd.run"]).into()));
    assert!(!access.blacklisted("mary", &"test.ping".into()));
}

#[test]
fn guessing_is_slowed_down_per_user() {
    let (_dir, mut access) = with_file(Map::new(), map! {"*" => words(&[".*"])});
    for _ in 0..8 {
        let _ = access.authenticate(&Map::new(), &login("file", "fred", "x"), "10.0.0.9");
    }
    let right = login("file", "fred", "geheim");
    let why = access
        .authenticate(&Map::new(), &right, "10.0.0.9")
        .unwrap_err()
        .why;
    assert!(why.contains("too many failures"), "{why}");
    assert!(access.authenticate(&Map::new(), &right, "10.0.0.1").is_ok());
    let mary = login("file", "mary", "geheim");
    assert!(access.authenticate(&Map::new(), &mary, "10.0.0.9").is_ok());
}

#[test]
fn runner_and_wheel_need_their_own_permission() {
    let rights = map! {"fred" => words(&[".*", "@jobs"]), "mary" => words(&["@wheel"])};
    let (_dir, mut access) = with_file(Map::new(), rights);
    let mut ask = |user: &str, fun: &str, wheel: bool| {
        let mut load = login("file", user, "geheim");
        load.set("fun", fun);
        if wheel {
            access
                .authorize_wheel(&load, "", "")
                .map(|c| c.user().to_owned())
        } else {
            access
                .authorize_runner(&load, "", "")
                .map(|c| c.user().to_owned())
        }
    };
    assert_eq!(ask("fred", "jobs.list_jobs", false).unwrap(), "fred");
    assert_eq!(ask("mary", "key.accept", true).unwrap(), "mary");
    for (user, fun, wheel) in [
        ("fred", "manage.up", false),
        ("fred", "key.accept", true),
        ("mary", "jobs.list_jobs", false),
        ("mary", "", true),
    ] {
        assert!(ask(user, fun, wheel).is_err(), "{user} {fun}");
    }
    let refused = ask("fred", "manage.up", false).unwrap_err();
    let expected = map! {"error" => map! {"name" => "EauthAuthenticationError",
    "message" => "Authentication failure of type \"eauth\" occurred for user fred."}};
    assert_eq!(refused, Value::Map(expected));
}

#[test]
fn arguments_of_runners_hide_nowhere() {
    let rules = map! {"@jobs" => vec![Value::Map(map! {"lookup_jid" => map! {"kwargs" => map! {"jid" => "2024"}}})]};
    let list = AuthList::parse(&vec![Value::Map(rules)].into());
    let allowed = |low: Map| {
        list.special(Form::Runner, &Call::of_low("jobs.lookup_jid", &low))
            == rules::Special::Allowed
    };
    let evil: Map = map! {"__kwarg__" => true, "jid" => "1999"};
    let good = map! {"jid" => "2024"};
    assert!(allowed(map! {"kwarg" => good.clone()}));
    assert!(allowed(
        map! {"jid" => "2024", "fun" => "x", "user" => "fred"}
    ));
    assert!(!allowed(map! {"jid" => "1999"}));
    assert!(!allowed(
        map! {"arg" => vec![Value::Map(evil)], "kwarg" => good.clone()}
    ));
    assert!(!allowed(
        map! {"arg" => vec![Value::from("jid=1999")], "kwarg" => good}
    ));
}

#[test]
fn a_local_user_of_publisher_acl_is_no_root_for_runners() {
    let acl = map! {"publisher_acl" => map! {"fred" => words(&[".*"])}};
    let (_dir, mut access, keys) = access(acl, &["saltmaster", "fred"]);
    let load =
        |user: &str| map! {"user" => user, "key" => keys[user].as_str(), "fun" => "key.delete"};
    assert!(access.authorize_wheel(&load("fred"), "", "").is_err());
    assert!(access.authorize_wheel(&load("saltmaster"), "", "").is_ok());
    let mut keyed = load("saltmaster");
    keyed.remove("user");
    assert!(
        access.authorize_wheel(&keyed, "", "").is_ok(),
        "no user means the owner of the key"
    );
    assert!(
        access
            .authorize_wheel(&map! {"fun" => "key.delete"}, "", "")
            .is_err()
    );
}

#[test]
fn permissions_from_a_higher_master_limit_the_key_of_root() {
    let (_dir, mut access, keys) = access(Map::new(), &["saltmaster"]);
    let load = map! {"user" => "root", "key" => keys["saltmaster"].as_str()};
    let mut by = |list: Value| {
        let fields = map! {"auth_list" => list};
        access.authenticate(&load, &fields, "").unwrap()
    };
    let limited = by(words(&["test.*"]).into());
    assert!(may(&limited, "test.ping") && !may(&limited, "cmd.run"));
    assert!(
        !may(&by(5.into()), "test.ping"),
        "what is no list grants nothing"
    );
    assert!(
        may(&by(Value::Array(Vec::new())), "cmd.run"),
        "root of the higher master"
    );
}

#[test]
fn faults_are_told() {
    let (_dir, access, _) = access(
        map! {
            "external_auth" => map! {
                "file" => map! {"^filename" => "x"}, "ldap" => Map::new(), "rest" => Map::new(),
                "pam" => Value::Nil,
            },
            "eauth_acl_module" => "rest",
            "publisher_acl_blacklist" => map! {"user" => "x"},
        },
        &[],
    );
    let told = faults(&access.config).join("\n");
    for part in [
        "plain text are refused",
        "binddn is missing",
        "\"rest\" is not supported",
        "must be a map",
        "eauth_acl_module",
        "everybody is refused",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
