//! What halite's minion writes is what a stock minion writes for the same job, and stock's
//! modules read it as halite's module `ret` does.

use super::servers::{Postgres, Redis, output};
use super::stock;
use halite::client::local::Job;
use halite::map;
use halite::wire::{Map, Value};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, eventually};

/// A minion, stock's or halite's.
struct Minion {
    dir: tempfile::TempDir,
    child: Child,
}

impl Minion {
    fn start(master: &Master, id: &str, options: &str, mut command: Command) -> Minion {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "root_dir: {}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {}\npublish_port: {}\n{options}\n",
            dir.path().display(),
            master.ret_port,
            master.publish_port,
        );
        std::fs::write(dir.path().join("minion"), text).unwrap();
        command.arg("-c").arg(dir.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Minion {
            dir,
            child: child.unwrap(),
        }
    }

    /// What a function says on halite's minion, as JSON.
    fn call(&self, words: &[&str]) -> Json {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite-call"));
        command.arg("-c").arg(self.dir.path());
        let text = output(command.args(["--local", "--out=json"]).args(words));
        let mut said: Json = serde_json::from_str(&text).unwrap();
        said["local"].take()
    }
}

impl Drop for Minion {
    fn drop(&mut self) {
        testing::harness::send(self.child.id(), Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn publish(master: &Master, fun: &str, arg: &[Value], ret: &str, kwargs: Map) -> String {
    let job = Job {
        fun: fun.into(),
        arg: arg.to_vec(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ret: ret.into(),
        kwargs,
        ..Job::default()
    };
    master.client().publish(&job).unwrap().jid
}

/// Both minions, once they answer; `None` without stock and its clients of databases.
fn both(master: &Master, options: &str) -> Option<[Minion; 2]> {
    let venv = std::env::var_os("HALITE_SALT_3006").filter(|v| !v.is_empty())?;
    let clients = std::env::var_os("HALITE_PYTHON_DATABASES")?;
    let mut stock = Command::new(PathBuf::from(venv).join("bin/salt-minion"));
    stock.arg("--disable-keepalive").env("PYTHONPATH", clients);
    let halite = Command::new(env!("CARGO_BIN_EXE_halite-minion"));
    let minions = [
        Minion::start(master, "stock", options, stock),
        Minion::start(master, "halite", options, halite),
    ];
    let end = Instant::now() + 2 * LIMIT;
    loop {
        assert!(Instant::now() < end, "the minions do not answer");
        let jid = publish(master, "test.ping", &[], "", Map::new());
        let soon = Instant::now() + Duration::from_secs(1);
        while Instant::now() < soon {
            if returns(master, &jid) == 2 {
                return Some(minions);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn returns(master: &Master, jid: &str) -> usize {
    let Ok(jid) = jid.parse() else {
        return 0;
    };
    let jobs = halite::store::Stores::open(&master.config()).jobs;
    let job = jobs.get(&jid).unwrap();
    job.map_or(0, |job| job.returns.len())
}

/// Jobs of several kinds that return to `ret`.
fn jobs(master: &Master, ret: &str, kwargs: &Map) -> Vec<String> {
    let strange: Value = map! {"é\"\\" => Value::Array(vec![Value::Float(1.5), Value::Float(1e20)]), "n" => Value::Nil, "i" => -3}.into();
    let mut with = kwargs.clone();
    with.set("metadata", map! {"why" => "test"});
    [
        publish(master, "test.ping", &[], ret, kwargs.clone()),
        publish(master, "test.echo", &[strange], ret, with),
        publish(
            master,
            "cmd.retcode",
            &["exit 3".into()],
            ret,
            kwargs.clone(),
        ),
    ]
    .to_vec()
}

/// Rows of both minions, without the id, are the same.
fn same(what: &str, rows: impl Fn(&str) -> Vec<Json>) {
    let mut got = [Vec::new(), Vec::new()];
    eventually(what, || {
        got = ["stock", "halite"].map(&rows);
        got.iter().all(|rows| !rows.is_empty())
    });
    let [stock, halite] = got;
    assert_eq!(stock, halite, "{what}");
}

fn parsed(text: &str) -> Json {
    let mut json: Json = serde_json::from_str(text).unwrap();
    if let Some(map) = json.as_object_mut() {
        map.remove("id");
    }
    json
}

#[test]
fn postgres_rows_are_stocks() {
    for module in ["pgjsonb", "postgres"] {
        let pg = Postgres::start();
        let host = pg.dir.path().display().to_string();
        let master = Master::start("worker_threads: 2");
        // Tables are made by halite's minion: stock's must not be first.
        let Some(minions) = both(&master, &format!("returner.{module}.host: {host}")) else {
            return;
        };
        minions[1].call(&["test.ping", &format!("--return={module}")]);
        for jid in jobs(
            &master,
            module,
            &map! {"ret_kwargs" => map! {"port" => 5432}},
        ) {
            same(&format!("{module} {jid}"), |id| {
                let row = pg.psql(&format!(
                    "SELECT json_build_array(fun, return::text, success, full_ret::text) FROM salt_returns \
                     WHERE jid = '{jid}' AND id = '{id}'"
                ));
                let Ok(mut row) = serde_json::from_str::<Json>(&row) else {
                    return Vec::new();
                };
                row[1] = parsed(row[1].as_str().unwrap());
                row[3] = parsed(row[3].as_str().unwrap());
                vec![row]
            });
            let opts = super::pg_options(&pg, module);
            let call = format!("get_jid('{jid}')");
            let stocks = stock("3006", module, &opts, &call).unwrap();
            assert_eq!(minions[1].call(&["ret.get_jid", module, &jid]), stocks);
        }
        assert_eq!(
            minions[1].call(&["ret.get_fun", module, "test.echo"])["halite"]["fun"],
            "test.echo"
        );
        let mut ids = minions[1].call(&["ret.get_minions", module]);
        ids.as_array_mut().unwrap().sort_by_key(|id| id.to_string());
        assert_eq!(ids, serde_json::json!(["halite", "stock"]));
    }
}

#[test]
fn redis_and_sqlite_rows_are_stocks() {
    let redis = Redis::start();
    let files = tempfile::tempdir().unwrap();
    let database = files.path().join("salt.db");
    let master = Master::start("worker_threads: 2");
    let options = format!(
        "redis.unix_socket_path: {}\nredis.db: 0\nother.redis.db: 1\n\
         sqlite3.database: {}\nsqlite3.timeout: 30.0",
        redis.socket().display(),
        database.display()
    );
    let Some(minions) = both(&master, &options) else {
        return;
    };
    minions[1].call(&["test.ping", "--return=sqlite3"]);
    let alternative = map! {"ret_config" => "other"};
    for jid in jobs(&master, "redis,sqlite3", &alternative) {
        same(&format!("redis {jid}"), |id| {
            let text = redis.cli(&["-n", "1", "HGET", &format!("ret:{jid}"), id]);
            let found = (!text.is_empty()).then(|| parsed(&text));
            found.into_iter().collect()
        });
        same(&format!("sqlite {jid}"), |id| sqlite(&database, &jid, id));
    }
    assert_eq!(redis.cli(&["-n", "0", "DBSIZE"]), "0");
    let jid = jobs(&master, "redis", &Map::new()).remove(1);
    same("redis", |id| {
        let text = redis.cli(&["HGET", &format!("ret:{jid}"), id]);
        let found = (!text.is_empty()).then(|| parsed(&text));
        found.into_iter().collect()
    });
    let opts = format!(
        "{{'redis.unix_socket_path': '{}', 'redis.db': '0', 'keep_jobs_seconds': 86400}}",
        redis.socket().display()
    );
    for [call, function, argument] in [
        [
            format!("get_jid('{jid}')"),
            "ret.get_jid".into(),
            jid.clone(),
        ],
        [
            "get_fun('test.echo')".into(),
            "ret.get_fun".into(),
            "test.echo".into(),
        ],
    ] {
        let stocks = stock("3006", "redis_return", &opts, &call).unwrap();
        assert_eq!(minions[1].call(&[&function, "redis", &argument]), stocks);
    }
    let lives: i64 = redis.cli(&["TTL", &format!("ret:{jid}")]).parse().unwrap();
    assert!((86_000..=86_400).contains(&lives), "{lives}");
}

/// A row of SQLite as a list; the time is its form only.
fn sqlite(database: &Path, jid: &str, id: &str) -> Vec<Json> {
    let db = rusqlite::Connection::open(database).unwrap();
    let sql = "SELECT fun, fun_args, full_ret, success, length(date) FROM salt_returns WHERE jid = ?1 AND id = ?2";
    let row = db.query_row(sql, [jid, id], |row| {
        let text = |at: usize| row.get::<_, Option<String>>(at);
        Ok(serde_json::json!([
            text(0)?,
            text(1)?,
            text(2)?,
            text(3)?,
            row.get::<_, i64>(4)?
        ]))
    });
    row.into_iter().collect()
}
