use super::*;
use halite_wire::yaml;

fn map(text: &str) -> Map {
    yaml::parse(text).unwrap().into_map().unwrap()
}

fn beacons(text: &str) -> Beacons {
    Beacons::new(&map(text), 1)
}

fn names(looks: &[DueBeacon]) -> Vec<&str> {
    looks.iter().map(|beacon| beacon.name.as_str()).collect()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn beacons_are_polled_when_due() {
    let mut b =
        beacons("{load: [{interval: 5}], ps: [{processes: {}}], memusage: [{enabled: false}]}");
    let t = Instant::now();
    assert_eq!(b.next_due(t), None, "not started");
    b.start(t, false);
    assert_eq!(b.next_due(t), Some(SECOND));
    assert!(b.due(t).is_empty());
    assert_eq!(names(&b.due(t + SECOND)), ["ps"]);
    assert_eq!(b.next_due(t + SECOND), None, "a look is under way");
    b.finish_poll();
    assert_eq!(b.next_due(t + SECOND), Some(SECOND));
    assert_eq!(names(&b.due(t + 5 * SECOND)), ["load", "ps"]);
    b.finish_poll();
    assert_eq!(names(&b.due(t + 6 * SECOND)), ["ps"]);
}

#[test]
fn no_wakeup_without_beacons() {
    let mut b = beacons("{}");
    b.start(Instant::now(), true);
    assert_eq!(b.next_due(Instant::now()), None);
    let mut b = beacons("{enabled: false, ps: [{processes: {}}]}");
    b.start(Instant::now(), true);
    assert_eq!(b.next_due(Instant::now()), None);
}

#[test]
fn pillar_overrides_configuration() {
    let mut b = beacons("ps: [{processes: {}}]");
    let t = Instant::now();
    b.start(t, true);
    b.set_pillar(&map("beacons: {load: []}"), t);
    assert_eq!(names(&b.due(t + SECOND)), ["load"]);
    assert_eq!(b.take_removed(), ["ps"]);
    b.finish_poll();
    b.set_pillar(&Map::new(), t);
    assert_eq!(names(&b.due(t + 2 * SECOND)), ["ps"]);
}

#[test]
fn requests() {
    let mut b = beacons("ps: [{processes: {}}]");
    let t = Instant::now();
    b.set_pillar(&map("beacons: {load: []}"), t);
    let mut manage = |text: &str| b.manage(&map(text), t).map(|reply| reply.data);
    let comment = |reply: Option<Map>| reply.and_then(|d| d.str("comment").map(str::to_owned));
    let add = "{func: add, name: log, beacon_data: [{file: /x}]}";
    assert_eq!(comment(manage(add)).unwrap(), "Added new beacon item: log");
    assert_eq!(
        comment(manage("{func: add, name: load, beacon_data: []}")).unwrap(),
        "Cannot update beacon item load, because it is configured in pillar."
    );
    assert_eq!(
        comment(manage("{func: delete, name: log}")).unwrap(),
        "Deleting beacon item: log"
    );
    assert_eq!(
        comment(manage("{func: delete, name: log}")).unwrap(),
        "Beacon item log not found."
    );
    let reply = manage("{func: disable_beacon, name: ps}").unwrap();
    let ps = yaml::parse("[{processes: {}}, {enabled: false}]").unwrap();
    assert_eq!(
        reply.get("beacons").unwrap(),
        &Value::from(halite_wire::map! {"ps" => ps})
    );
    manage("{func: enable_beacon, name: ps}");
    let list = manage("{func: list, include_pillar: true, include_opts: true}").unwrap();
    assert_eq!(
        list.get("beacons").unwrap(),
        &Value::from(map("{load: [], ps: [{processes: {}}]}"))
    );
    let check =
        manage("{func: validate_beacon, name: x, beacon_data: [{beacon_module: memusage}]}");
    assert_eq!(
        check.unwrap().str("vcomment"),
        Some("Configuration for memusage beacon requires percent.")
    );
    assert!(manage("{func: nosuch}").is_none());
    assert_eq!(
        comment(manage("{func: reset}")).unwrap(),
        "Beacons have been reset"
    );
}

#[test]
fn a_poll_returns_events() {
    let ctx = Context {
        id: "m1".into(),
        ..Context::default()
    };
    let due = |name: &str, text: &str| DueBeacon {
        name: name.to_owned(),
        settings: BeaconConfig::from_value(&yaml::parse(text).unwrap()),
    };
    let mut poller = BeaconPoller::default();
    let mut poll = |name: &str, text: &str| poller.poll(&ctx, &[due(name, text)]);
    let reply = poll(
        "procs",
        "[{processes: {no-such-process: stopped}}, {beacon_module: ps}]",
    );
    let event = halite_wire::map! {
        "tag" => "salt/beacon/m1/procs/",
        "data" => halite_wire::map! {"no-such-process" => "Stopped", "id" => "m1"},
        "beacon_name" => "ps",
    };
    assert_eq!(reply, [Value::Map(event)]);
    assert_eq!(poll("memusage", "[{percent: '0%'}]").len(), 1);
    assert_eq!(poll("memusage", "[{percent: 101}]").len(), 0);
    assert_eq!(poll("memusage", "[]").len(), 0);
    assert_eq!(poll("diskusage", "[{/: 0%}]").len(), 1);
    assert_eq!(poll("nosuch", "[]").len(), 0);
    let failed = poll("log", "[{file: /no/such}]");
    let failed = failed[0].as_map().unwrap();
    assert!(failed.str("error").unwrap().contains("/no/such"));
    let status = poll("status", "[{interval: 5}, {loadavg: [1-min]}]");
    let status = status[0]
        .as_map()
        .unwrap()
        .get("data")
        .and_then(Value::as_map)
        .unwrap();
    let data = status.get("data").and_then(Value::as_map).unwrap();
    assert_eq!(data.len(), 1);
}
