//! The corpus of `tests/data/python`: modules, states, grains, utilities and renderers of all the shapes that public trees
//! have, with the outcomes that stock 3006 and 3008 gave (`stock.py`, which also records them anew).

use halite::wire::Map;
use halite_ipc::Subscriber;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testing::{LONG, Master, Minion, Stock, halite_program, wait_until};

#[test]
fn the_corpus_has_the_same_outcome_as_with_stock() {
    let data = Path::new("tests/data/python");
    let out = tempfile::tempdir().unwrap();
    let parts = 3;
    let play = |part: usize| {
        Command::new("python3")
            .arg(data.join("stock.py"))
            .args(["--program", env!("CARGO_BIN_EXE_halite-call")])
            .args(["--python", "python3", "--part"])
            .arg(format!("{part}/{parts}"))
            .arg(out.path().join(format!("own-{part}.json")))
            .arg("--against")
            .arg(data.join("expected-3008.json"))
            .output()
            .unwrap()
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let playing: Vec<_> = (1..=parts)
            .map(|part| scope.spawn(move || play(part)))
            .collect();
        playing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for done in all {
        let said = String::from_utf8_lossy(&done.stdout);
        let lines = said.lines().filter(|line| !line.starts_with("(need not)"));
        let (summary, different): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.ends_with(" with differences"));
        assert!(
            done.status.success() && summary.len() == 1 && different.is_empty(),
            "{}\n{}",
            different.join("\n"),
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// What halite's own part of Salt's package answers, case by case, is what Salt's answers.
#[test]
fn our_part_of_salts_package_answers_as_salts() {
    let Some(venv) = std::env::var_os("HALITE_SALT_3008").filter(|venv| !venv.is_empty()) else {
        return;
    };
    let shim = Path::new("tests/data/python/shim");
    let run = |python: &Path, args: &[&Path]| {
        let out = Command::new(python).args(args).output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let stock = run(
        &Path::new(&venv).join("bin/python"),
        &[&shim.join("cases.py"), Path::new("--stub")],
    );
    let ours = run(Path::new("python3"), &[&shim.join("run.py")]);
    assert!(stock.lines().count() > 600);
    for (stock, ours) in stock.lines().zip(ours.lines()) {
        assert_eq!(ours, stock);
    }
    assert_eq!(ours.lines().count(), stock.lines().count());
}

/// Runners, wheel functions, external pillars, tops and renderers in Python on a master: the same calls, at stock's and at ours,
/// where a minion of stock's gets its pillar.
#[test]
fn python_on_a_master_does_what_it_does_at_stocks() {
    let (Some(stock), Some(older)) = (Stock::find("3008"), Stock::find("3006")) else {
        return;
    };
    let data = testing::top().join("tests/data/python/master");
    let lines = format!(
        "auto_accept: true\nfile_roots: {{base: [{0}/srv]}}\npillar_roots: {{base: [{0}/pillar]}}\n\
         ext_pillar: [{{store: [1, two]}}, {{store: {{a: b}}}}, {{store: one}}, {{labelled: 'l-'}}, {{failing: x}}, {{no_such: x}}]\n\
         master_tops: {{shelves: {{prefix: m}}}}\ntop_dirs: [{0}/srv/_tops]\n",
        data.display()
    );
    let at = |master: Master, minion: &Stock| {
        let _minion = Minion::stock(minion, &master, "m1", "");
        let cli = match master.is_stock() {
            true => master.stock_cli(&stock),
            false => master.halite_cli(),
        };
        wait_until("the minion answers", || {
            cli.ask(&["m1", "test.ping"])
                .is_ok_and(|said| said.get("m1") == Some(&true.into()))
        });
        cli.runner(&["saltutil.sync_all"]).ok().expect("it syncs");
        let mut told = Vec::new();
        for line in RUNS.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ran = cli.runner(&[&words[..], &["--out=json"]].concat());
            told.push(format!("{line}: {}", outcome(&ran.out, &ran.err)));
        }
        for env in ["", "pillarenv=broken"] {
            let words = ["m1", "pillar.items", env];
            let words = &words[..words.len() - usize::from(env.is_empty())];
            let pillar = cli.ask(words).expect("a pillar");
            told.push(format!("pillar {env}: {}", pillar["m1"]));
        }
        let top = cli.ask(&["m1", "state.show_top"]).expect("a top file");
        told.push(format!("top: {}", top["m1"]));
        told
    };
    let expected = at(Master::stock(&stock, &lines), &older);
    let ours = at(Master::halite(&lines), &older);
    assert_eq!(ours, expected, "{ours:#?}\n{expected:#?}");
}

/// What a runner has returned; of an error, what it is about: its other words are another program's.
fn outcome(out: &str, err: &str) -> String {
    const ERRORS: [(&str, &str); 7] = [
        ("there is nothing left", "refused"),
        ("no way to ask", "wrong"),
        ("KeyError: 'missing'", "broken"),
        (
            "missing 1 required positional argument: 'item'",
            "arguments",
        ),
        ("needs item", "arguments"),
        ("returned False: there is no absent", "absent"),
        ("is not available", "unknown"),
    ];
    let text = format!("{out} {err}");
    if let Some((_, name)) = ERRORS.iter().find(|(words, _)| text.contains(words)) {
        return (*name).to_owned();
    }
    // Events of progress and other words may come first.
    let starts = out
        .match_indices(['{', '[', '"', 't', 'n'])
        .map(|(at, _)| at);
    let at_lines = starts.filter(|at| *at == 0 || out[..*at].ends_with('\n'));
    let value = at_lines
        .rev()
        .find_map(|at| serde_json::from_str(&out[at..]).ok());
    value.map_or(text, |value: serde_json::Value| value.to_string())
}

const RUNS: &str = "\
warehouse.list
warehouse.price nails 3 colour=blue
warehouse.price
warehouse.minions
warehouse.grains_of m1
warehouse.later m1
warehouse.nobody
warehouse.other
warehouse.keys
warehouse.own_wheel
warehouse.tell shop/told
warehouse.util
warehouse.refuse
warehouse.wrong
warehouse.broken
warehouse.code
warehouse.role
warehouse.shown
warehouse.slowly
depot.where
absent.never
renamed.where
warehouse.no_such";

/// Returners and beacons in Python: what they write and tell is the same from a minion of stock's and from ours.
#[test]
fn returners_and_beacons_in_python_do_what_they_do_at_stocks() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let data = testing::top().join("tests/data/python/master");
    let master = Master::halite(&format!(
        "auto_accept: true\nfile_roots: {{base: [{}/srv]}}\n",
        data.display()
    ));
    let cli = master.halite_cli();
    let of = |id: &str, program| {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (book, door) = (at("book"), at("door"));
        let lines = format!(
            "ledger.path: {book}\nloop_interval: 1\nbeacons:\n  door: [{{path: {door}}}, {{interval: 1}}]\n  \
             back: [{{path: {door}}}, {{beacon_module: door}}, {{interval: 1}}]\n  bad: [{{beacon_module: door}}]\n"
        );
        let _minion = Minion::start(program, &master, id, &lines);
        wait_until("the minion answers", || {
            let said = cli.ask(&[id, "test.ping"]);
            said.is_ok_and(|said| said.get(id) == Some(&true.into()))
        });
        let mut bus = Subscriber::connect(master.bus()).expect("the bus is there");
        cli.ask(&[id, "saltutil.sync_all"]).expect("it syncs");
        let mut told = Vec::new();
        for (before, word) in ["hello", "world"].into_iter().enumerate() {
            let words = [id, "test.echo", word, "--return=ledger,closed"];
            cli.ask(&words).expect("an answer");
            // The answer does not wait for returners: the next one's could come first.
            wait_until("it is in the book", || {
                let text = std::fs::read_to_string(&book);
                text.is_ok_and(|text| text.lines().count() > before)
            });
        }
        told.push(std::fs::read_to_string(&book).expect("it is there"));
        let kept = cli.ask(&[id, "ret.get_fun", "ledger", "test.echo"]);
        told.push(kept.expect("an answer")[id].to_string());
        for word in ["open", "shut"] {
            std::fs::write(&door, word).expect("a file can be written");
            let mut event = |tag: String| {
                let end = std::time::Instant::now() + LONG;
                while std::time::Instant::now() < end {
                    let next = bus.next(Some(Duration::from_millis(200)));
                    let Some(event) = next.expect("the bus is there") else {
                        continue;
                    };
                    if event.tag == tag {
                        let data = halite::wire::msgpack::decode(&event.payload);
                        let mut data = data.expect("data").into_map().expect("a map");
                        data.remove("_stamp");
                        return format!("{tag} {data:?}");
                    }
                }
                panic!("no event {tag}");
            };
            // The first of both beacons has seen it for the other one: they are one module.
            told.push(event(format!("salt/beacon/{id}/door/{word}")));
        }
        told.iter()
            .map(|text| text.replace(id, "ID"))
            .collect::<Vec<_>>()
    };
    let expected = of("theirs", stock.program("salt-minion"));
    let ours = of("ours", halite_program("halite-minion"));
    assert_eq!(ours, expected, "{ours:#?}\n{expected:#?}");
}

/// The next event with this tag, without what is different each time.
fn event(bus: &mut Subscriber, tag: &str) -> Map {
    let end = std::time::Instant::now() + LONG;
    while std::time::Instant::now() < end {
        let next = bus.next(Some(Duration::from_millis(200)));
        let Some(event) = next.expect("the bus is there") else {
            continue;
        };
        if event.tag == tag {
            let data = halite::wire::msgpack::decode(&event.payload);
            let mut data = data.expect("data").into_map().expect("a map");
            data.remove("_stamp");
            return data;
        }
    }
    panic!("no event {tag}");
}

/// Engines, returners for events and logins in Python: the same events, files and rights at a stock master and at ours.
#[test]
fn engines_event_returners_and_logins_in_python_do_what_they_do_at_stocks() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let data = testing::top().join("tests/data/python/master/srv");
    let at = |start: fn(&str) -> Master| {
        let dir = tempfile::tempdir().expect("a directory");
        let book = dir.path().join("book").display().to_string();
        let lines = format!(
            "auto_accept: true\nengines_dirs: [{0}/_engines]\nauth_dirs: [{0}/_auth]\nreturner_dirs: [{0}/_returners]\n\
             engines:\n  - listening: {{name: first, count: 2}}\n  - other: {{engine_module: listening, name: second}}\n  - absent\n\
             event_return: [minutes]\nminutes.path: {book}\n\
             external_auth: {{cellar: {{ann: [test.echo], 'keepers%': [test.ping]}}}}\n",
            data.display()
        );
        let master = start(&lines);
        let cli = match master.is_stock() {
            true => master.stock_cli(&stock),
            false => master.halite_cli(),
        };
        let mut bus = Subscriber::connect(master.bus()).expect("the bus is there");
        let mut told = Vec::new();
        let send = |tag: &str, n: &str| {
            let data = format!("{{\"n\": \"{n}\"}}");
            let sent = cli.runner(&["event.send", tag, &data]);
            sent.ok().expect("it is sent");
        };
        // Engines may begin after the first question.
        wait_until("both engines answer", || {
            send("question/start", "0");
            let mut answers = 0;
            while let Ok(Some(event)) = bus.next(Some(Duration::from_secs(1))) {
                answers += usize::from(event.tag == "answer/question/start");
            }
            answers == 2
        });
        send("question/a", "1");
        for _ in 0..2 {
            let answer = event(&mut bus, "answer/question/a");
            told.push(format!("{answer:?}"));
        }
        // They are started again, in any order.
        send("question/b", "stop");
        for _ in 0..2 {
            let ready = event(&mut bus, "answer/ready");
            told.push(format!("{ready:?}"));
        }
        for n in ["1", "2", "bad", "3"] {
            send("house/door", n);
            wait_until("it is in the book", || {
                std::fs::read_to_string(&book).is_ok_and(|text| text.contains(n))
            });
        }
        told.push(std::fs::read_to_string(&book).expect("it is there"));
        let _minion = Minion::stock(&stock, &master, "m1", "");
        wait_until("the minion answers", || {
            cli.ask(&["m1", "test.ping"])
                .is_ok_and(|said| said.get("m1") == Some(&true.into()))
        });
        for (user, password, words) in [
            ("ann", "nna", "test.echo x"),
            ("ann", "nna", "test.ping"),
            ("ann", "ann", "test.echo x"),
            ("kim", "mik", "test.ping"),
            ("kim", "mik", "test.echo x"),
            ("bob", "bob", "test.ping"),
            ("broken", "secret", "test.ping"),
        ] {
            let login = [
                format!("--username={user}"),
                format!("--password={password}"),
            ];
            let login = login.iter().map(String::as_str);
            let words: Vec<&str> = ["-a", "cellar"]
                .into_iter()
                .chain(login)
                .chain(["m1"])
                .chain(words.split(' '))
                .collect();
            let said = cli.ask(&words);
            told.push(format!(
                "{user}: {:?}",
                said.ok().and_then(|said| said.get("m1").cloned())
            ));
        }
        let log = master.log();
        assert!(master.is_stock() || !log.contains("secret"), "{log}");
        told.sort();
        told
    };
    let expected = at(|lines| Master::stock(&Stock::find("3008").expect("it was there"), lines));
    let ours = at(Master::halite);
    assert_eq!(ours, expected, "{ours:#?}\n{expected:#?}");
}

/// An engine on a minion listens to its bus and tells the master.
#[test]
fn engines_of_minions_do_what_they_do_at_stocks() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let data = testing::top().join("tests/data/python/master/srv");
    let master = Master::halite("auto_accept: true\n");
    let cli = master.halite_cli();
    let of = |id: &str, program| {
        let mut bus = Subscriber::connect(master.bus()).expect("the bus is there");
        let lines = format!(
            "engines_dirs: [{}/_engines]\nengines: [listening: {{name: first}}]\n",
            data.display()
        );
        let _minion = Minion::start(program, &master, id, &lines);
        // Engines may begin after the first question.
        let ask = |tag: &str| {
            let said = cli.ask(&[id, "event.fire", "{n: 7}", tag]);
            said.is_ok_and(|said| said[id] == true)
        };
        wait_until("the engine answers", || {
            ask("question/start")
                && std::iter::from_fn(|| bus.next(Some(Duration::from_secs(1))).ok().flatten())
                    .any(|event| event.tag == "answer/question/start")
        });
        assert!(ask("question/a"));
        let answer = event(&mut bus, "answer/question/a");
        format!("{:?}", answer.get("data")).replace(id, "ID")
    };
    let expected = of("theirs", stock.program("salt-minion"));
    let ours = of("ours", halite_program("halite-minion"));
    assert_eq!(ours, expected, "{ours:#?}\n{expected:#?}");
}
