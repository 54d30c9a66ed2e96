//! The master's schedule beside that of a running stock master: what ran, with what, and what is
//! told about it.

mod stock {
    use halite::wire::{Map, Value, msgpack};
    use halite_ipc::Subscriber;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};
    use testing::{LONG, Master, Minion, Stock};

    const SCHEDULE: &str = "
schedule:
  quick:
    function: test.arg
    seconds: 1
    splay: 0
    args: [1, two]
    kwargs: {three: [3]}
  slow:
    function: test.sleep
    seconds: 1
    maxrunning: 1
    args: [4]
  sent:
    func: event.send
    seconds: 2
    run_on_start: false
    args: ['my/tag', {a: 1}]
  untold:
    function: event.send
    seconds: 1
    return_job: false
    args: [my/untold]
  uncached:
    function: test.metasyntactic
    seconds: 2
    return_job: nocache
  returned:
    function: test.metasyntactic
    seconds: 2
    metadata: {b: 2}
    jid_include: false
    returner: [local]
    return_job: nocache
  whenever:
    function: test.arg
    when: ['Jan 1 2020 5:00pm', '5:00pm Jan 2 2020']
  disabled:
    function: test.arg
    seconds: 1
    enabled: false
  rare:
    function: test.arg
    hours: 30
";

    /// What one master did.
    #[derive(Debug)]
    struct Seen {
        /// What was told of each job the first time, without process ids and clocks.
        first: BTreeMap<String, Map>,
        /// How often each job was told.
        counts: BTreeMap<String, usize>,
        /// The data of the events that jobs sent.
        sent: BTreeMap<String, Map>,
        /// Whether the job that is due only after a day ran at the start.
        at_start: bool,
    }

    fn watch(master: &Master) -> Seen {
        let mut bus = Subscriber::connect(master.bus()).unwrap();
        let mut seen = Seen {
            first: BTreeMap::new(),
            counts: BTreeMap::new(),
            sent: BTreeMap::new(),
            at_start: false,
        };
        let end = Instant::now() + LONG;
        while seen.counts.get("slow").is_none_or(|n| *n < 3) || seen.sent.len() < 2 {
            assert!(Instant::now() < end, "{seen:?}\n{}", master.tail());
            let Ok(Some(event)) = bus.next(Some(Duration::from_millis(500))) else {
                continue;
            };
            let Ok(Value::Map(mut data)) = msgpack::decode(&event.payload) else {
                continue;
            };
            data.remove("_stamp");
            if event.tag.starts_with("my/") {
                seen.sent.insert(event.tag, data);
            } else if event.tag == "__schedule_return" {
                assert!(data.remove("pid").is_some());
                let name = data.str("schedule").unwrap().to_owned();
                if let Some(Value::Map(metadata)) = data.get_mut("metadata") {
                    assert!(metadata.remove("_TS").is_some() && metadata.remove("_TT").is_some());
                    let jid = data.remove("jid").unwrap();
                    assert_eq!(jid.as_str().map(str::len), Some(20));
                }
                *seen.counts.entry(name.clone()).or_default() += 1;
                let first = seen.first.entry(name).or_insert_with(|| data.clone());
                assert_eq!(*first, data, "each run tells the same");
            }
        }
        let log = std::fs::read_to_string(master.home.log()).unwrap();
        seen.at_start = log.contains("scheduled job: rare") || log.contains("scheduled job rare");
        seen
    }

    fn beside(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        // Told of both in the same words; a job that ran once at the start may have been told before
        // anybody listened.
        let theirs = watch(&Master::stock(&stock, SCHEDULE));
        let ours = watch(&Master::halite(&format!(
            "salt_series: '{series}'\n{SCHEDULE}"
        )));
        let without = |mut seen: BTreeMap<String, Map>| {
            seen.remove("rare");
            seen
        };
        assert_eq!(without(ours.first), without(theirs.first));
        assert_eq!(ours.sent, theirs.sent);
        assert_eq!(ours.at_start, theirs.at_start);
        assert_eq!(theirs.at_start, series == "3008");
        for counts in [&ours.counts, &theirs.counts] {
            // One at a time: in four seconds it runs once, and what takes no time several times.
            assert!(counts["quick"] > counts["slow"], "{counts:?}");
            assert!(!counts.contains_key("disabled") && !counts.contains_key("whenever"));
        }
    }

    #[test]
    fn the_schedule_beside_that_of_3006() {
        beside("3006");
    }

    #[test]
    fn the_schedule_beside_that_of_3008() {
        beside("3008");
    }

    /// What minions tell their master about jobs that they gave themselves.
    const OF_A_MINION: &str = "
schedule:
  plain:
    function: test.arg
    seconds: 10
    args: [1, two]
    kwargs: {three: [3]}
  empty:
    function: test.arg
    seconds: 10
    kwargs: {}
  described:
    function: test.ping
    seconds: 10
    metadata: {a: 1}
  described_wrongly:
    function: test.arg
    seconds: 10
    metadata: text
  untold:
    function: test.arg
    seconds: 10
    return_job: false
  uncached:
    function: test.arg
    seconds: 10
    return_job: nocache
  returned:
    function: test.ping
    seconds: 10
    returner: [rawfile_json, local, no_such]
    return_config: other
    return_kwargs: {a: 1}
    return_job: nocache
  failing:
    function: cmd.run
    seconds: 10
    args: ['exit 3']
  raising:
    function: cp.get_file
    seconds: 10
    returner: local
    return_config: other
  absent:
    function: no.such
    seconds: 10
  skipped:
    function: test.arg
    seconds: 10
    run_on_start: false
    range: {start: '2020-01-01 00:00', end: '2020-01-02 00:00'}
  dry:
    function: test.arg
    seconds: 10
    dry_run: true
";

    /// The first return of each job, without what differs from run to run, and the metadata that a
    /// minion adds.
    fn told(master: &Master, minion: &Minion) -> BTreeMap<String, Map> {
        let mut bus = Subscriber::connect(master.bus()).unwrap();
        let end = Instant::now() + LONG;
        let mut seen: BTreeMap<String, Map> = BTreeMap::new();
        while seen.len() < 9 {
            assert!(Instant::now() < end, "{:?}\n{}", seen.keys(), minion.tail());
            let Ok(Some(event)) = bus.next(Some(Duration::from_millis(500))) else {
                continue;
            };
            let Ok(Value::Map(mut data)) = msgpack::decode(&event.payload) else {
                continue;
            };
            let Some(name) = data.str("schedule").map(str::to_owned) else {
                continue;
            };
            let jid = data.str("jid").unwrap().to_owned();
            if jid != "nocache" {
                assert_eq!(event.tag, format!("salt/job/{jid}/ret/{}", minion.id));
            }
            for key in ["_stamp", "pid", "jid", "ts"] {
                data.remove(key);
            }
            data.set("uncached", jid == "nocache");
            if let Some(Value::Map(metadata)) = data.get_mut("metadata") {
                for key in ["_TS", "_TT"] {
                    let text = metadata.remove(key).unwrap();
                    let shape: String = text
                        .as_str()
                        .unwrap()
                        .chars()
                        .map(|c| if c.is_ascii_digit() { '9' } else { c })
                        .collect();
                    metadata.set(key, shape);
                }
            }
            if let Some(Value::Map(ret)) = data.get_mut("return")
                && let Some(Value::Map(kwargs)) = ret.get_mut("kwargs")
            {
                for key in ["__pub_jid", "__pub_pid"] {
                    assert!(kwargs.remove(key).is_some(), "{key} in {kwargs:?}");
                }
            }
            seen.entry(name).or_insert(data);
        }
        seen
    }

    #[test]
    fn the_schedule_of_a_minion_beside_that_of_3008() {
        let Some(stock) = Stock::find("3008") else {
            return;
        };
        let master = || Master::halite("auto_accept: true");
        let (one, other) = (master(), master());
        let theirs = told(&one, &Minion::stock(&stock, &one, "m1", OF_A_MINION));
        let ours = told(&other, &Minion::halite(&other, "m1", OF_A_MINION));
        let wrong: Vec<_> = theirs
            .iter()
            .filter(|(name, wanted)| ours.get(*name) != Some(*wanted))
            .map(|(name, wanted)| format!("{name}:\n  {:?}\n  {wanted:?}\n", ours.get(name)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.concat());
        assert_eq!(ours.len(), theirs.len(), "{:?}", ours.keys());
    }
}
