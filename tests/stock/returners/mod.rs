//! Jobs and events in real databases, read back with their own tools and with the returner
//! modules of stock Salt.
//!
//! The latter need Python's `redis` and `psycopg2` in the directory `HALITE_PYTHON_DATABASES`
//! (`scripts/test` makes one).

mod minion;
mod servers;

use nix::sys::signal::Signal;
use servers::{Postgres, Redis, output};
use std::path::PathBuf;
use std::process::Command;
use testing::harness::{Master, eventually};

/// What a function of a stock returner module says, as JSON.
fn stock(series: &str, module: &str, opts: &str, call: &str) -> Option<serde_json::Value> {
    let venv = std::env::var_os(format!("HALITE_SALT_{series}")).filter(|v| !v.is_empty())?;
    let mut python = Command::new(PathBuf::from(venv).join("bin/python"));
    if module != "sqlite3_return" {
        python.env("PYTHONPATH", std::env::var_os("HALITE_PYTHON_DATABASES")?);
    }
    let script = format!(
        "import json, salt.returners.{module} as m\n\
         opts = {opts}\n\
         m.__opts__ = opts\n\
         m.__salt__ = {{'config.option': lambda k, d='', **kw: opts.get(k, d)}}\n\
         print(json.dumps(m.{call}, sort_keys=True))"
    );
    let text = output(python.arg("-c").arg(script));
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn redis_and_sqlite_hold_jobs() {
    let mut redis = Redis::start();
    let files = tempfile::tempdir().unwrap();
    let database = files.path().join("salt.db");
    let master = Master::start(&format!(
        "worker_threads: 2\nmaster_job_cache: redis\nredis.unix_socket_path: {}\n\
         ext_job_cache: sqlite3\nsqlite3.database: {}\nsqlite3.timeout: 5.0",
        redis.socket().display(),
        database.display()
    ));
    let _swarm = master.swarm(3);
    let first = master.publish_ping("*");
    let returned = |redis: &Redis, jid: &str| redis.cli(&["HLEN", &format!("ret:{jid}")]);
    eventually("returns in redis", || returned(&redis, &first.jid) == "3");
    let load = redis.cli(&["GET", &format!("load:{}", first.jid)]);
    let load: serde_json::Value = serde_json::from_str(&load).unwrap();
    assert_eq!(
        (&load["fun"], &load["ret"]),
        (&"test.ping".into(), &"sqlite3".into())
    );
    assert!(load.get("key").is_none());
    assert_eq!(redis.cli(&["SCARD", "minions"]), "3");
    let id = redis.cli(&["SRANDMEMBER", "minions"]);
    assert_eq!(redis.cli(&["GET", &format!("{id}:test.ping")]), first.jid);
    let lives: i64 = redis
        .cli(&["TTL", &format!("ret:{}", first.jid)])
        .parse()
        .unwrap();
    assert!((86_000..=86_400).contains(&lives), "{lives}");

    // Away, and back with nothing in it: what came in meanwhile is there, at least.
    redis.stop();
    let second = master.publish_ping("*");
    redis.again();
    eventually("returns of the time away", || {
        returned(&redis, &second.jid) == "3"
    });

    // A killed role goes on where it was.
    let role = master.role(" Returner").unwrap();
    testing::harness::send(role.pid, Signal::SIGKILL);
    let third = master.publish_ping("*");
    eventually("returns after a kill", || {
        returned(&redis, &third.jid) == "3"
    });

    let opts = format!(
        "{{'redis.unix_socket_path': '{}', 'redis.db': '0', 'keep_jobs_seconds': 86400}}",
        redis.socket().display()
    );
    for series in ["3006", "3007"] {
        if let Some(got) = stock(
            series,
            "redis_return",
            &opts,
            &format!("get_jid('{}')", third.jid),
        ) {
            assert_eq!(got.as_object().unwrap().len(), 3);
            assert_eq!(got[&id]["return"], true);
            let jids = stock(series, "redis_return", &opts, "get_jids()").unwrap();
            assert_eq!(jids[&third.jid]["Function"], "test.ping");
            let fun = stock(series, "redis_return", &opts, "get_fun('test.ping')").unwrap();
            assert_eq!(fun[&id]["jid"], third.jid.as_str());
        }
    }
    // The loads are in the other database, the returns are up to the minions.
    let opts = format!(
        "{{'sqlite3.database': '{}', 'sqlite3.timeout': 5.0}}",
        database.display()
    );
    for series in ["3006", "3007"] {
        if let Some(jids) = stock(series, "sqlite3_return", &opts, "get_jids()") {
            assert_eq!(jids.as_object().unwrap().len(), 3);
            assert_eq!(jids[&first.jid]["Target"], "*");
            let got = stock(series, "sqlite3_return", &opts, "get_minions()").unwrap();
            assert_eq!(got, serde_json::json!([]));
        }
    }
}

#[test]
fn sqlite_holds_returns() {
    let files = tempfile::tempdir().unwrap();
    let database = files.path().join("salt.db");
    let mut master = Master::start(&format!(
        "worker_threads: 2\nmaster_job_cache: sqlite3\nsqlite3.database: {}\nsqlite3.timeout: 5.0",
        database.display()
    ));
    let swarm = master.swarm(2);
    let published = master.publish_ping("*");
    let rows = |sql: &str| {
        let db = rusqlite::Connection::open(&database).unwrap();
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap_or(-1)
    };
    eventually("returns", || rows("SELECT count(*) FROM salt_returns") == 2);
    assert_eq!(
        rows("SELECT count(*) FROM salt_returns WHERE success = '1' AND full_ret = 'true'"),
        2
    );
    drop(swarm);
    master.signal(Signal::SIGTERM);
    master.wait_end(testing::harness::LIMIT).unwrap();
    master.restart();
    let _swarm = master.swarm(2);
    let again = master.publish_ping("*");
    let two = format!(
        "SELECT count(*) FROM salt_returns WHERE jid = '{}'",
        again.jid
    );
    eventually("returns after a restart", || rows(&two) == 2);
    assert_eq!(
        rows("SELECT count(*) FROM salt_returns"),
        4,
        "nothing stands there twice"
    );
    let opts = format!(
        "{{'sqlite3.database': '{}', 'sqlite3.timeout': 5.0}}",
        database.display()
    );
    for series in ["3006", "3007"] {
        let call = |call: &str| stock(series, "sqlite3_return", &opts, call);
        if let Some(load) = call(&format!("get_load('{}')", published.jid)) {
            assert_eq!(
                (&load["fun"], &load["tgt"]),
                (&"test.ping".into(), &"*".into())
            );
            assert_eq!(call("get_minions()").unwrap().as_array().unwrap().len(), 2);
            let jid = call(&format!("get_jid('{}')", published.jid)).unwrap();
            assert!(
                jid.as_object()
                    .unwrap()
                    .values()
                    .all(|v| v["return"] == true),
                "{jid}"
            );
        }
    }
}

fn pg_options(pg: &Postgres, module: &str) -> String {
    format!(
        "{{'returner.{module}.host': '{}', 'id': 'x'}}",
        pg.dir.path().display()
    )
}

#[test]
fn postgres_holds_jobs_and_events() {
    for module in ["pgjsonb", "postgres"] {
        let pg = Postgres::start();
        let files = tempfile::tempdir().unwrap();
        let events = files.path().join("events");
        let master = Master::start(&format!(
            "worker_threads: 2\nid: boss\nmaster_job_cache: {module}\nreturner.{module}.host: {}\n\
             event_return: [{module}, rawfile_json]\nrawfile_json.filename: {}\n\
             event_return_queue: 50\nevent_return_queue_max_seconds: 1\n\
             event_return_whitelist: ['salt/job/*']\nevent_return_blacklist: ['*/publish']",
            pg.dir.path().display(),
            events.display()
        ));
        let _swarm = master.swarm(3);
        let job = master.publish_ping("*");
        let count = |what: &str| pg.count(&format!("SELECT count(*) FROM {what}"));
        eventually("returns", || count("salt_returns") == Some(3));
        assert_eq!(count("jids"), Some(1));
        // new, and a return of each.
        eventually("events", || count("salt_events") == Some(4));
        assert_eq!(
            pg.psql("SELECT DISTINCT fun || ' ' || jid || ' ' || success FROM salt_returns"),
            format!("test.ping {} true", job.jid)
        );
        assert_eq!(
            pg.psql("SELECT DISTINCT master_id FROM salt_events"),
            "boss"
        );
        if module == "pgjsonb" {
            assert_eq!(
                pg.psql("SELECT DISTINCT data->>'fun' FROM salt_events WHERE tag LIKE '%/ret/%'"),
                "test.ping"
            );
        }
        let lines = || {
            std::fs::read_to_string(&events)
                .unwrap_or_default()
                .lines()
                .count()
        };
        eventually("lines of events", || lines() == 4);

        if module == "pgjsonb" {
            old_rows_go(&pg, &master);
        }

        // Copied again from the beginning, nothing stands there twice.
        let reached = master
            .dir
            .path()
            .join(format!("var/cache/halite/master/returner/{module}.reached"));
        eventually("a note of what is copied", || reached.exists());
        std::fs::remove_file(&reached).unwrap();
        let role = master.role(" Returner").unwrap();
        testing::harness::send(role.pid, Signal::SIGKILL);
        eventually("a successor", || reached.exists());
        let next = master.publish_ping("*");
        eventually("returns after a kill", || {
            count(&format!("salt_returns WHERE jid = '{}'", next.jid)) == Some(3)
        });
        assert_eq!((count("salt_returns"), count("jids")), (Some(6), Some(2)));

        for series in ["3006", "3008"] {
            let opts = pg_options(&pg, module);
            let call = |call: &str| stock(series, module, &opts, call);
            let Some(got) = call(&format!("get_jid('{}')", job.jid)) else {
                continue;
            };
            let got = got.as_object().unwrap();
            assert_eq!(got.len(), 3);
            if module == "pgjsonb" {
                assert!(got.values().all(|v| v["return"] == true), "{got:?}");
            }
            let load = call(&format!("get_load('{}')", job.jid)).unwrap();
            assert!(load.to_string().contains("test.ping"), "{load}");
            assert_eq!(call("get_minions()").unwrap().as_array().unwrap().len(), 3);
            // `get_jids` of `postgres` takes text for a load, and fails on its own rows.
            if module == "pgjsonb" {
                assert_eq!(
                    call("get_jids()").unwrap()[&job.jid]["Function"],
                    "test.ping"
                );
            }
        }
    }
}

/// What is old goes when the role begins; a job stays for its last return.
fn old_rows_go(pg: &Postgres, master: &Master) {
    pg.psql("INSERT INTO jids VALUES ('old', '{}'), ('half', '{}')");
    pg.psql(
        "INSERT INTO salt_returns (fun, jid, return, id, success, full_ret, alter_time) SELECT 'f', j, '1'::jsonb, i, 'true', '{}'::jsonb, now() - a::interval \
         FROM (VALUES ('old', 'a', '2 days'), ('half', 'a', '2 days'), ('half', 'b', '1 hour')) AS v (j, i, a)",
    );
    let role = master.role(" Returner").unwrap();
    testing::harness::send(role.pid, Signal::SIGKILL);
    eventually("old rows are removed", || {
        pg.count("SELECT count(*) FROM salt_returns WHERE fun = 'f'") == Some(1)
    });
    assert_eq!(pg.psql("SELECT jid FROM jids WHERE load = '{}'"), "half");
    pg.psql("DELETE FROM jids WHERE jid = 'half'");
    pg.psql("DELETE FROM salt_returns WHERE jid = 'half'");
}
