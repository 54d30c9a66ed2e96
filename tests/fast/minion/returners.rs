//! Returners of a minion and of `halite-call`.

use super::*;
use std::net::TcpListener;

/// Publishes a job for returners; gives its jid.
fn publish(pair: &Pair, fun: Value, arg: &[Value], ret: &str, kwargs: Map) -> String {
    let job = Job {
        fun,
        arg: arg.to_vec(),
        tgt: "m1".into(),
        tgt_type: "glob".into(),
        ret: ret.into(),
        kwargs,
        ..Job::default()
    };
    pair.master.client().publish(&job).unwrap().jid
}

/// The lines of a file as JSON.
fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn results_reach_returners() {
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name);
    let mut pair = Pair::start(
        "",
        &format!(
            "return: rawfile_json\nrawfile_json.filename: {root}/lines\n\
             sqlite3.database: {root}/usual.db\nother.sqlite3.database: {root}/other.db\n\
             sqlite3:\n  timeout: 5.0",
            root = files.path().display()
        ),
    );
    let none = Map::new;
    let jid = publish(
        &pair,
        "test.echo".into(),
        &["é".into()],
        "sqlite3,nosuch",
        halite::map! {"metadata" => halite::map! {"k" => 1}},
    );
    assert_eq!(text(&pair.returned(&jid), "return"), "é");
    eventually("a line", || lines(&at("lines")).len() == 1);
    let line = &lines(&at("lines"))[0];
    let wanted = serde_json::json!({
        "success": true, "return": "é", "retcode": 0, "jid": jid, "fun": "test.echo",
        "fun_args": ["é"], "metadata": {"k": 1}, "id": "m1", "user": line["user"],
    });
    assert_eq!(line, &wanted);
    let rows = |name: &str| {
        let db = rusqlite::Connection::open(at(name)).unwrap();
        db.query_row(
            "SELECT group_concat(fun || ' ' || jid || ' ' || full_ret || ' ' || success) FROM salt_returns",
            [],
            |row| row.get::<_, Option<String>>(0),
        )
        .ok()
        .flatten()
    };
    let row = format!("test.echo {jid} \"é\" 1");
    eventually("a row", || rows("usual.db").as_deref() == Some(&row));
    let log = || std::fs::read_to_string(pair.minion.path("log")).unwrap();
    eventually("a word about the name that nothing has", || {
        log().contains(
            "Returner nosuch.returner could not be loaded: 'nosuch.returner' is not available.",
        )
    });

    let other = publish(
        &pair,
        "test.ping".into(),
        &[],
        "sqlite3,rawfile_json",
        halite::map! {
            "ret_config" => "other",
            "ret_kwargs" => halite::map! {"filename" => at("given").to_string_lossy().as_ref()},
        },
    );
    let row = format!("test.ping {other} true 1");
    eventually("a row elsewhere", || {
        rows("other.db").as_deref() == Some(&row)
    });
    eventually("a line elsewhere", || lines(&at("given")).len() == 1);
    assert_eq!(lines(&at("given"))[0]["ret_config"], "other");

    // Several functions: the option does not count, as with stock.
    let funs: Value = vec!["test.ping".to_owned(), "test.true".to_owned()].into();
    let args = [Value::Array(vec![]), Value::Array(vec![])];
    let several = publish(&pair, funs, &args, "sqlite3", none());
    eventually("a row of several", || {
        rows("usual.db").is_some_and(|all| all.contains(&format!("test.ping,test.true {several}")))
    });
    assert_eq!(lines(&at("lines")).len(), 1);

    let ask = |pair: &mut Pair, fun: &str, args: &[Value]| {
        pair.run(fun, args).get("return").unwrap().clone()
    };
    let kept = ask(
        &mut pair,
        "ret.get_jid",
        &["sqlite3".into(), jid.as_str().into()],
    );
    let wanted = halite::map! {"m1" => halite::map! {"return" => "é"}};
    assert_eq!(kept, wanted.into());
    let kept = ask(
        &mut pair,
        "ret.get_fun",
        &["sqlite3".into(), "test.echo".into()],
    );
    assert_eq!(kept, halite::map! {"m1" => "é"}.into());
    let kept = ask(&mut pair, "ret.get_minions", &["sqlite3".into()]);
    assert_eq!(kept, vec!["m1".to_owned()].into());
    let kept = ask(&mut pair, "ret.get_jids", &["sqlite3".into()]);
    assert_eq!(kept, Map::new().into(), "loads are the master's");
    let refused = ask(&mut pair, "ret.get_jids", &["rawfile_json".into()]);
    let words = refused.as_str().unwrap();
    assert!(
        words.ends_with("KeyError: 'rawfile_json.get_jids'\n"),
        "{words}"
    );
}

#[test]
fn a_database_that_hangs_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut pair = Pair::start(
        "",
        &format!("returner.postgres.host: 127.0.0.1\nreturner.postgres.port: {port}"),
    );
    let jid = publish(&pair, "test.ping".into(), &[], "postgres", Map::new());
    assert_eq!(pair.returned(&jid).get("return"), Some(&true.into()));
    let _asked = listener.accept().unwrap();
    let found = pair.run("saltutil.find_job", &[jid.as_str().into()]);
    assert_eq!(found.get("return"), Some(&Map::new().into()), "it is done");
    // One that is killed meanwhile has returned all the same, once.
    pair.minion.kill();
    pair.minion.restart();
    pair.started();
    pair.run("test.ping", &[]);
    let again = pair.heard.iter().filter(|(tag, _)| tag.contains(&jid));
    assert_eq!(again.count(), 0);
}

#[test]
fn of_halite_call() {
    let dir = call::local();
    let file = dir.path().join("lines");
    let kwargs = format!("--return-kwargs={{filename: {}}}", file.display());
    let (status, out, err) = call::call(
        dir.path(),
        &[
            "--local",
            "--return=local,rawfile_json,nosuch",
            &kwargs,
            "test.echo",
            "é",
        ],
    );
    assert_eq!(status, 0, "{err}");
    let (shown, printed) = out.split_at("local:\n    é\n".len());
    assert_eq!(shown, "local:\n    é\n");
    assert!(
        printed.starts_with("{'jid': '") && printed.contains("'fun_args': ['é']"),
        "{printed}"
    );
    let line = &lines(&file)[0];
    assert_eq!(
        (&line["return"], &line["id"], &line["success"]),
        (&"é".into(), &"m1".into(), &true.into())
    );
    // The option counts as well, and what fails changes nothing.
    let minion = std::fs::read_to_string(dir.path().join("minion")).unwrap();
    let option = format!(
        "{minion}return: [rawfile_json, sqlite3]\nrawfile_json.filename: {}\nsqlite3.database: /nonexistent/db\n",
        file.display()
    );
    std::fs::write(dir.path().join("minion"), option).unwrap();
    let (status, out, _) = call::call(dir.path(), &["--local", "test.ping"]);
    assert_eq!((status, out.as_str()), (0, "local:\n    True\n"));
    assert_eq!(lines(&file).len(), 2);
}
