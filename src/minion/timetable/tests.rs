use super::*;
use halite_wire::map;
use jiff::ToSpan;

fn table(dir: &Path, schedule: &str) -> Timetable {
    let schedule = yaml::parse(schedule).unwrap();
    let options = map! {"id" => "m1", "mine_enabled" => false, "schedule" => schedule};
    let mut table = Timetable::new(&MinionConfig::from_map(options, dir).unwrap());
    table.start();
    table
}

fn names(due: &[Spec]) -> Vec<&str> {
    due.iter().map(|d| d.name.as_str()).collect()
}

fn answer(table: &mut Timetable, order: Map) -> (String, Map) {
    table.manage(&order).events.pop().unwrap()
}

#[test]
fn jobs_come_from_the_options_and_the_pillar() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = table(dir.path(), "a: {function: test.ping, seconds: 10}");
    let pillar = map! {"schedule" => yaml::parse("b: {function: f, seconds: 10}").unwrap()};
    t.set_sources(&pillar, &Map::new());
    let start = now();
    assert_eq!(
        names(&t.due(start)),
        ["b", "a"],
        "intervals run at the start"
    );
    assert!(t.due(start).is_empty());
    assert!(t.wait(start).unwrap() <= Duration::from_secs(11));
    assert_eq!(t.due(start.saturating_add(12.seconds())).len(), 2);
    t.set_sources(&Map::new(), &Map::new());
    assert_eq!(names(&t.due(start.saturating_add(30.seconds()))), ["a"]);
}

#[test]
fn changes_are_made_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = table(dir.path(), "{}");
    let job = map! {"j" => map! {"function" => "test.ping", "seconds" => 3600, "_x" => 1}};
    let order = map! {"func" => "add", "name" => "j", "schedule" => job, "persist" => true};
    let (tag, told) = answer(&mut t, order);
    assert_eq!(tag, "/salt/minion/minion_schedule_add_complete");
    assert!(
        told.get("schedule")
            .unwrap()
            .as_map()
            .unwrap()
            .contains("j")
    );
    let file = dir.path().join("minion.d/_schedule.conf");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        kept,
        "schedule:\n  j:\n    enabled: true\n    function: test.ping\n    seconds: 3600\n"
    );
    assert_eq!(names(&t.due(now())), ["j"]);
    let off = map! {"func" => "disable_job", "name" => "j", "persist" => false};
    answer(&mut t, off);
    assert!(t.due(now().saturating_add(2.hours())).is_empty());
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("enabled: true")
    );
    let (_, status) = answer(&mut t, map! {"func" => "job_status", "name" => "j"});
    let status = status.get("data").unwrap().as_map().unwrap().clone();
    assert_eq!(status.str("function"), Some("test.ping"));
    let gone = map! {"func" => "delete", "name" => "j", "persist" => true};
    answer(&mut t, gone);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "schedule: {}\n");
}

#[test]
fn the_next_time_and_a_postponed_job() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = table(dir.path(), "a: {function: f, once: '2099-01-01T12:00:00'}");
    let next = map! {"func" => "get_next_fire_time", "name" => "a"};
    let (_, told) = answer(&mut t, next.clone());
    assert_eq!(told.str("next_fire_time"), Some("2099-01-01T12:00:00"));
    let later = map! {
        "func" => "postpone_job", "name" => "a", "time" => "2099-01-01T12:00:00",
        "new_time" => "2098-01-01T12:00:00",
    };
    answer(&mut t, later);
    let (_, told) = answer(&mut t, next);
    assert_eq!(told.str("next_fire_time"), Some("2098-01-01T12:00:00"));
}

#[test]
fn a_job_can_be_run_at_once_and_named_times_are_looked_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut t = table(dir.path(), "a: {function: f, when: tea time}");
    t.set_sources(
        &map! {"whens" => map! {"tea time" => "5:00pm"}},
        &Map::new(),
    );
    let run = t.manage(&map! {"func" => "run_job", "name" => "a"}).run;
    assert_eq!(run.unwrap().function, "f");
    assert!(
        t.manage(&map! {"func" => "run_job", "name" => "x"})
            .run
            .is_none()
    );
}

#[test]
fn nothing_is_due_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = map! {"id" => "m1", "grains_refresh_every" => 5};
    let mut t = Timetable::new(&MinionConfig::from_map(options, dir.path()).unwrap());
    assert!(t.due(now()).is_empty() && t.wait(now()).is_none());
    t.start();
    assert_eq!(names(&t.due(now())), [MINE]);
    assert_eq!(names(&t.due(now().saturating_add(6.minutes()))), [GRAINS]);
}
