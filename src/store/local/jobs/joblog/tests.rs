use super::*;
use halite_wire::ids::MinionId;
use std::io::Write;

fn store(dir: &Path) -> JobLog {
    JobLog::new(dir, 3600, None)
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn ret(id: &str, n: i64) -> Map {
    halite_wire::map! {"id" => id, "return" => n, "retcode" => 0, "success" => true}
}

#[test]
fn jobs_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let jid = Jid::from_time(now(), 5);
    let load = halite_wire::map! {"fun" => "test.ping", "tgt" => "*", "key" => "secret"};
    store
        .save_load(&jid, &load, &["a".into(), "b".into()], &["x".into()])
        .unwrap();
    let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
    store.save_return(&jid, &a, &ret("a", 1)).unwrap();
    store.save_return(&jid, &b, &ret("b", 2)).unwrap();
    store.save_return(&jid, &a, &ret("a", 3)).unwrap();
    let job = store.get(&jid).unwrap().unwrap();
    assert_eq!(job.load.str("fun"), Some("test.ping"));
    assert!(!job.load.contains("key"), "the user's key is never stored");
    assert_eq!((job.minions.len(), job.missing.len()), (2, 1));
    let got: Vec<_> = job
        .returns
        .iter()
        .map(|r| (r.id.as_str(), r.load.int("return")))
        .collect();
    assert_eq!(
        got,
        [("a", Some(1)), ("b", Some(2))],
        "the first return of a minion counts"
    );
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn only_a_torn_record_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let jid = Jid::from_time(now(), 5);
    store.save_load(&jid, &Map::new(), &[], &[]).unwrap();
    let mut torn = Vec::new();
    let load = halite_wire::map! {"return" => "7".repeat(40)};
    store.record(&mut torn, RETURN, &load).unwrap();
    OpenOptions::new()
        .append(true)
        .open(store.path(&jid))
        .unwrap()
        .write_all(&torn[..20])
        .unwrap();
    store
        .save_return(&jid, &"a".parse().unwrap(), &ret("a", 1))
        .unwrap();
    assert_eq!(store.get(&jid).unwrap().unwrap().returns.len(), 1);
}

/// A minion that returns what looks like the return of another one, and is torn.
#[test]
fn a_torn_return_contains_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let jid = Jid::from_time(now(), 5);
    store.save_load(&jid, &Map::new(), &[], &[]).unwrap();
    let other = JobLog::new(&dir.path().join("other"), 3600, None);
    let mut forged = Vec::new();
    other
        .record(&mut forged, RETURN, &ret("victim", 1))
        .unwrap();
    let load = halite_wire::map! {"id" => "a", "return" => [forged, vec![0; 1000]].concat()};
    let mut torn = Vec::new();
    store.record(&mut torn, RETURN, &load).unwrap();
    OpenOptions::new()
        .append(true)
        .open(store.path(&jid))
        .unwrap()
        .write_all(&torn[..torn.len() - 500])
        .unwrap();
    for id in ["b", "c"] {
        let id: MinionId = id.parse().unwrap();
        store.save_return(&jid, &id, &ret(id.as_str(), 2)).unwrap();
    }
    // Another process reads it, and one that follows it.
    let reader = self::store(dir.path());
    let returns = reader.get(&jid).unwrap().unwrap().returns;
    let ids: Vec<_> = returns.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["b", "c"]);
    let update = reader.updates(&jid, 0).unwrap().unwrap();
    assert_eq!(update.returns.len(), 2);
}

#[test]
fn returns_of_several_jobs_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (first, second) = (Jid::from_time(now(), 5), Jid::from_time(now(), 6));
    let far: Jid = "29991231235959000000".parse().unwrap();
    let ids: Vec<MinionId> = ["a", "b", "c"].map(|id| id.parse().unwrap()).into();
    let loads: Vec<Map> = ids.iter().map(|id| ret(id.as_str(), 1)).collect();
    let one = |jid, n: usize, starts_job| Returned {
        jid,
        id: &ids[n],
        load: &loads[n],
        starts_job,
    };
    let outcomes = store.save_returns(&[
        one(&first, 0, false),
        one(&far, 0, false),
        one(&second, 1, true),
        one(&first, 2, false),
    ]);
    let good: Vec<bool> = outcomes.iter().map(io::Result::is_ok).collect();
    assert_eq!(good, [true, false, true, true]);
    let own = store.get(&second).unwrap().unwrap();
    assert_eq!(
        (own.load, own.minions),
        (loads[1].clone(), vec!["b".to_owned()])
    );
    let of = |jid| {
        let job = store.get(jid).unwrap().unwrap();
        let ids = job.returns.iter().map(|r| r.id.clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(
        (of(&first), of(&second)),
        (vec!["a".into(), "c".into()], vec!["b".to_owned()])
    );
}

#[test]
fn jobs_started_by_minions_are_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let now = now();
    let id: MinionId = "a".parse().unwrap();
    let load = ret("a", 1);
    let own = Jid::from_time(now, 40);
    store.save_load(&own, &Map::new(), &[], &[]).unwrap();
    // The second jid does not fit in a shared file; the last one is earlier than those before.
    let begun: Vec<Jid> = [50, 51, 52, 45]
        .map(|n| Jid::from_time(now, n))
        .into_iter()
        .enumerate()
        .map(|(n, jid)| if n == 1 { jid.with_pid(7) } else { jid })
        .collect();
    let returns: Vec<Returned> = begun
        .iter()
        .map(|jid| Returned {
            jid,
            id: &id,
            load: &load,
            starts_job: true,
        })
        .collect();
    assert!(store.save_returns(&returns).iter().all(Result::is_ok));
    for jid in &begun {
        let job = store.get(jid).unwrap().unwrap();
        assert_eq!(
            (&job.load, job.minions.as_slice()),
            (&load, &["a".to_owned()][..])
        );
        assert_eq!(job.returns.len(), 1);
    }
    // Later records come after these.
    let seen = store.updates(&begun[0], 0).unwrap().unwrap();
    assert_eq!((seen.load.as_ref(), seen.returns.len()), (Some(&load), 1));
    let none = store.updates(&begun[0], seen.end).unwrap().unwrap();
    assert!(none.load.is_none() && none.returns.is_empty() && none.end == seen.end);
    store
        .save_return(&begun[0], &"b".parse().unwrap(), &ret("b", 2))
        .unwrap();
    let more = store.updates(&begun[0], seen.end).unwrap().unwrap();
    assert_eq!((more.load, more.returns.len()), (None, 1));
    let job = store.get(&begun[0]).unwrap().unwrap();
    assert_eq!((job.load, job.returns.len()), (load.clone(), 2));

    let mut all = begun.clone();
    all.push(own);
    all.sort_unstable();
    let listed = store.list().unwrap();
    assert!(listed.iter().map(|(jid, _)| jid).eq(&all));
    assert!(listed.iter().filter(|(_, job)| job.load == load).count() == 4);
    assert_eq!(store.started_since(now).unwrap(), all);
    let since = std::time::SystemTime::now() - std::time::Duration::from_secs(5);
    assert_eq!(store.changed_since(since).unwrap(), all);
    assert_eq!(store.expire(now + 7200, 3600).unwrap(), 5);
    assert!(store.get(&begun[0]).unwrap().is_none());
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn age_removes_whole_slices() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let now = now();
    for age in [0, 1200, 7200] {
        store
            .save_load(&Jid::from_time(now - age, 0), &Map::new(), &[], &[])
            .unwrap();
    }
    assert_eq!(store.expire(now, 3600).unwrap(), 1);
    assert_eq!(store.list().unwrap().len(), 2);
}

#[test]
fn a_jid_out_of_range_creates_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let far: Jid = "29991231235959000000".parse().unwrap();
    let error = store
        .save_return(&far, &"a".parse().unwrap(), &ret("a", 1))
        .unwrap_err();
    assert!(error.to_string().contains("outside the time"), "{error}");
    assert!(store.list().unwrap().is_empty());
    let recent = Jid::from_time(now(), 1);
    store
        .save_return(&recent, &"a".parse().unwrap(), &ret("a", 1))
        .unwrap();
    assert_eq!(store.get(&recent).unwrap().unwrap().returns.len(), 1);
}

#[test]
fn many_writers_do_not_tear() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let jid = Jid::from_time(now(), 9);
    store.save_load(&jid, &Map::new(), &[], &[]).unwrap();
    std::thread::scope(|s| {
        for t in 0..4 {
            let (store, jid) = (&store, &jid);
            s.spawn(move || {
                for i in 0..250 {
                    let id = format!("m{t}-{i}");
                    store
                        .save_return(jid, &id.parse().unwrap(), &ret(&id, i))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(store.get(&jid).unwrap().unwrap().returns.len(), 1000);
}
