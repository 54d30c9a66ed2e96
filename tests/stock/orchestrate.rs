//! Orchestration beside stock Salt: the same files, the same master, the same minions; run by
//! `halite-run` and by stock's `salt-run`, what the states came to must be the same.

use serde_json::{Map, Value};
use std::path::Path;
use testing::gpg::KeyRing;
use testing::{Cli, Master, Minion, Stock, wait_until};

const FILES: &[(&str, &str)] = &[
    ("change.sls", "c: {test.succeed_with_changes: []}\n"),
    (
        "same.sls",
        "n: {test.nop: [{name: '{{ pillar.get(\"given\", \"none\") }}'}]}\n",
    ),
    ("bad.sls", "f: {test.fail_without_changes: []}\n"),
    ("broken.sls", "f: {{ nothing.of.this }}\n"),
    ("top.sls", "base: {'*': [same]}\n"),
    ("good.sls", "i: {test.succeed_with_changes: []}\n"),
    (
        "wrong.sls",
        "i: {test.nop: [{require: [{test: nothere}]}]}\n",
    ),
    ("inner.sls", "i: {test.fail_without_changes: []}\n"),
    (
        "wait.sls",
        "w: {salt.wait_for_event: [{name: my/none}, {id_list: [a]}, {timeout: 1}]}\n",
    ),
    ("all.sls", ALL),
];

const ALL: &str = "
two: {salt.state: [{tgt: new}, {sls: [change, same]}, {pillar: {given: {{ pillar.given|json }}}}]}
high: {salt.state: [{tgt: new}, {highstate: true}, {require: [{salt: two}]}]}
old: {salt.state: [{tgt: old}, {sls: change}]}
trial: {salt.state: [{tgt: new}, {sls: change}, {test: true}]}
batch: {salt.state: [{tgt: '[no]*'}, {sls: same}, {batch: 1}]}
bad: {salt.state: [{tgt: new}, {sls: bad}]}
after: {salt.function: [{name: test.ping}, {tgt: new}, {require: [{salt: bad}]}]}
rescue: {salt.function: [{name: test.ping}, {tgt: new}, {onfail: [{salt: bad}]}]}
unneeded: {salt.function: [{name: test.ping}, {tgt: new}, {onfail: [{salt: two}]}]}
watch: {salt.function: [{name: test.ping}, {tgt: new}, {watch: [{salt: two}]}]}
before: {salt.function: [{name: test.ping}, {tgt: new}, {prereq: [{test: change}]}]}
change: {test.succeed_with_changes: []}
told: {test.show_notification: [{text: hi}, {onchanges: [{test: change}]}]}
allowed: {salt.state: [{tgt: new}, {sls: bad}, {allow_fail: 1}]}
forgiven: {salt.state: [{tgt: new}, {sls: bad}, {fail_minions: [new]}]}
unknown: {salt.state: [{tgt: new}, {sls: no.such}]}
broken: {salt.state: [{tgt: new}, {sls: broken}]}
stateless: {salt.state: [{tgt: own}, {sls: same}]}
nothing: {salt.state: [{tgt: new}]}
nobody: {salt.state: [{tgt: nosuch}, {sls: same}]}
optional: {salt.state: [{tgt: nosuch}, {sls: same}, {expect_minions: false}]}
ping: {salt.function: [{name: test.ping}, {tgt: '*'}]}
args: {salt.function: [{name: test.echo}, {tgt: 'old,own'}, {tgt_type: list}, {arg: [two words]}]}
words: {salt.function: [{name: test.echo}, {tgt: own}, {arg: word}]}
false: {salt.function: [{name: test.false}, {tgt: '*'}]}
raises: {salt.function: [{name: test.exception}, {tgt: new}]}
missing: {salt.function: [{name: no.such}, {tgt: own}]}
runner: {salt.runner: [{name: test.arg}, {arg: [5]}, {kwarg: {z: 1}}, {more: true}]}
up: {salt.runner: [{name: manage.up}]}
inner: {salt.runner: [{name: state.orchestrate}, {mods: inner}]}
keys: {salt.wheel: [{name: key.list_all}]}
skipped: {test.nop: [{unless: 'true'}]}
unmet: {test.nop: [{onlyif: 'false'}]}
";

/// States that change the master's host, and templates with its functions. `DIR` is a directory.
const HOST: &str = r#"
{% set tag = salt['saltutil.runner']('test.arg', arg=['a'], kwarg={'b': 1}) %}
{% set top = salt['saltutil.runner']('pillar.show_pillar') %}
made: {file.managed: [{name: DIR/made}, {source: 'salt://host.txt'}, {template: jinja}, {mode: '0640'}, {context: {word: '{{ tag.args[0] }}'}}]}
said: {cmd.run: [{name: cat DIR/made}, {onchanges: [file: made]}]}
failed: {cmd.run: [{name: exit 3}]}
lines: {file.append: [{name: DIR/made}, {text: '{{ salt['test.echo']('x') }}'}, {onlyif: [{fun: file.file_exists, path: DIR/made}]}]}
old style: {module.run: [{name: test.echo}, {text: '{{ salt['pillar.get']('given', 'none') }} {{ top is mapping }}'}]}
new style: {module.run: [{test.echo: [{text: b}]}, {test.true: []}]}
watched: {module.wait: [{name: test.echo}, {text: c}, {watch: [file: made]}]}
slot: {test.nop: [{name: '__slot__:salt:test.echo(d)'}]}
skipped: {file.absent: [{name: DIR/made}, {unless: 'test -e DIR/made'}]}
ini: {ini.options_present: [{name: DIR/ini}, {sections: {s: {a: 1}}}]}
each: {file.directory: [{names: [DIR/d1, DIR/d2]}, {parallel: true}]}
missing: {file.managed: [{contents: x}, {source: 'salt://none'}, {name: relative}]}
unknown: {no_such.state: []}
gone: {file.absent: [{names: [DIR/made, DIR/ini, DIR/d1, DIR/d2]}, {require: [file: each]}, {order: last}]}
"#;

/// Without what differs from run to run.
fn bare(value: &Value) -> Value {
    const TIMES: [&str; 6] = ["duration", "start_time", "__jid__", "jid", "_stamp", "pid"];
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !TIMES.contains(&key.as_str()));
            Value::Object(kept.map(|(k, v)| (k.clone(), bare(v))).collect())
        }
        Value::Array(list) => list.iter().map(bare).collect(),
        // A slip of stock in what `module.run` says in test mode.
        Value::String(text) => text.replace("FunctionTrue ", "Functions ").into(),
        other => other.clone(),
    }
}

/// What `state.orchestrate` came to, and its exit status.
fn orchestrate(cli: &Cli, args: &[&str]) -> (Value, Option<i32>) {
    let mut all = vec!["--out", "json", "state.orchestrate"];
    all.extend(args);
    let ran = cli.runner(&all);
    // Stock prints about targets without minions before the result.
    let text = ran.out.find('{').map_or("", |at| &ran.out[at..]);
    let value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {}", ran.describe()));
    (bare(&value), ran.status)
}

fn states(value: &Value) -> &Map<String, Value> {
    let data = value["data"].as_object().expect("data");
    data.values().next().unwrap().as_object().expect("states")
}

fn start(dir: &Path, old: &Stock, new: &Stock) -> (Master, Vec<Minion>) {
    for (name, text) in FILES {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let master = Master::halite(&format!(
        "auto_accept: true\ntimeout: 15\nsalt_series: '3008'\nfile_roots: {{base: ['{}']}}\n",
        dir.display()
    ));
    let minions = vec![
        Minion::stock(old, &master, "old", ""),
        Minion::stock(new, &master, "new", ""),
        Minion::halite(&master, "own", ""),
    ];
    let cli = master.halite_cli();
    wait_until("all minions answer", || {
        let ran = cli.run(
            "salt",
            &["-t", "5", "--out", "json", "--static", "*", "test.ping"],
        );
        ["old", "new", "own"]
            .iter()
            .all(|id| ran.out.contains(&format!("\"{id}\": true")))
    });
    (master, minions)
}

/// Files of a repository, for orchestration without minions.
const REPOSITORY: &[(&str, &str)] = &[
    (
        "orch/init.sls",
        "{% from 'lib/names.jinja' import name with context %}\n{% import_yaml 'lib/map.yaml' as map %}\n\
         include: [.part, base: other]\n{{ name('a') }}: {test.nop: [{name: '{{ map.word }} {{ saltenv }}'}]}\n\
         places: {test.nop: [{name: '{{ tplfile }} {{ tpldir }} {{ tpldot }} {{ slspath }} {{ slscolonpath }} {{ sls }}'}]}\n",
    ),
    (
        "orch/part.sls",
        "{% from './near.jinja' import near %}\n{{ near }}: {test.nop: [{require: [{sls: other}]}]}\n",
    ),
    ("orch/near.jinja", "{% set near = 'near' %}\n"),
    (
        "lib/names.jinja",
        "{% macro name(x) %}n-{{ x }}-{{ sls }}{% endmacro %}\n",
    ),
    ("lib/map.yaml", "word: git\n"),
    // The directory has precedence.
    ("other.sls", "other: {test.fail_without_changes: []}\n"),
    ("wild/one.sls", "one: {test.nop: []}\n"),
    ("wild/two.sls", "two: {test.nop: []}\n"),
];

/// Every state of files in a repository, beside stock; the master's directories come first.
#[test]
fn files_of_a_repository_are_those_of_stock() {
    let Some(new) = Stock::find("3008") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let url = testing::git::repository(&dir.path().join("repo"), REPOSITORY);
    let roots = dir.path().join("roots");
    std::fs::create_dir(&roots).unwrap();
    std::fs::write(roots.join("other.sls"), "other: {test.nop: []}\n").unwrap();
    let given = "given: {test.nop: [{name: '{{ pillar.word }}'}]}\n";
    std::fs::write(roots.join("given.sls"), given).unwrap();
    let ring = KeyRing::new(dir.path().join("ring"));
    let word = format!("pillar={{word: '{}'}}", ring.encrypt_folded(b"told"));
    let options = format!(
        "salt_series: '3008'\ngpg_keydir: {}\nfileserver_backend: [roots, gitfs]\ngitfs_remotes: ['{url}']\n\
         gitfs_base: main\nfile_roots: {{base: ['{}']}}\n",
        ring.0.display(),
        roots.display()
    );
    // Each master has copies of its own of the repository: stock removes any others.
    let (mine, theirs) = (Master::halite(&options), Master::stock(&new, &options));
    let (own, stock) = (mine.halite_cli(), theirs.stock_cli(&new));
    for cli in [&own, &stock] {
        wait_until("the repository is fetched", || {
            cli.runner(&["fileserver.update"]).ok().unwrap();
            let listed = cli.runner(&["--out", "json", "fileserver.file_list"]);
            listed.ok().unwrap().contains("orch/part.sls")
        });
    }
    for args in [
        &["orch"][..],
        &["orch", "saltenv=dev"],
        &["wild.*,orch.part"],
        &["lib.none", "saltenv=main"],
        &["orch,lib.none", "saltenv=none"],
        &["lib.none"],
        &["given", &word, "pillar_enc=gpg"],
        &["given", "pillar={word: plain}", "pillar_enc=none"],
    ] {
        let found = orchestrate(&own, args);
        assert_eq!(found, orchestrate(&stock, args), "{args:?}");
        if args == ["orch"] {
            let all = found.0["data"]
                .as_object()
                .unwrap()
                .values()
                .next()
                .unwrap();
            assert_eq!(all.as_object().map_or(0, Map::len), 4, "{found:?}");
        }
    }
}

#[test]
fn states_come_to_the_same_as_with_stock() {
    let (Some(old), Some(new)) = (Stock::find("3006"), Stock::find("3008")) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (master, _minions) = start(dir.path(), &old, &new);
    let (own, stock) = (master.halite_cli(), master.stock_cli(&new));
    let made = tempfile::tempdir().unwrap();
    let host = HOST.replace("DIR", &made.path().display().to_string());
    std::fs::write(dir.path().join("host.sls"), host).unwrap();
    let text = "{{ word }} {{ grains.os }} {{ salt['test.echo']('t') }}\n";
    std::fs::write(dir.path().join("host.txt"), text).unwrap();
    for args in [
        &["host", "pillar={given: 7}"][..],
        &["host", "test=True"],
        &["all", "pillar={given: 7}"],
        &["all", "pillar={given: 7}", "test=True"],
        &["good"],
        &["good,inner", "exclude=inner"],
        &["wrong"],
        &["broken"],
        &["no.such"],
        &["wait"],
    ] {
        let (mine, status) = orchestrate(&own, args);
        let (theirs, expected) = orchestrate(&stock, args);
        assert_eq!(status, expected, "{args:?}");
        let errors = mine["data"]
            .as_object()
            .unwrap()
            .values()
            .all(Value::is_array);
        if errors {
            assert_eq!(mine, theirs, "{args:?}");
            continue;
        }
        let (found, wanted) = (states(&mine), states(&theirs));
        for (tag, state) in wanted {
            assert_eq!(found.get(tag), Some(state), "{args:?} {tag}");
        }
        assert_eq!(found.len(), wanted.len(), "{args:?}");
        assert_eq!(mine["retcode"], theirs["retcode"], "{args:?}");
    }
}
