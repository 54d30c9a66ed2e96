use super::*;
use halite_wire::yaml;
use jiff::civil::{Weekday, date};

fn schedule(text: &str) -> Schedule {
    let (schedule, errors) = Schedule::new(&yaml::parse(text).unwrap().into_map().unwrap());
    assert!(errors.is_empty(), "{errors:?}");
    schedule
}

/// Seconds from the start at which `name` ran.
fn runs(schedule: &mut Schedule, start: DateTime, seconds: i64) -> Vec<i64> {
    let mut ran = Vec::new();
    for at in 0..seconds {
        ran.extend(
            schedule
                .due(start.saturating_add(at.seconds()))
                .iter()
                .map(|_| at),
        );
    }
    ran
}

#[test]
fn intervals_begin_after_one_interval() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let mut plain = schedule("a: {function: f, seconds: 10}");
    assert_eq!(runs(&mut plain, start, 35), [10, 20, 30]);
    let mut at_once = schedule("a: {function: f, minutes: 1, run_on_start: true}");
    assert_eq!(runs(&mut at_once, start, 121), [0, 60, 120]);
    let mut off = schedule("a: {function: f, seconds: 1, enabled: false}");
    assert!(runs(&mut off, start, 5).is_empty());
    let mut all_off = schedule("enabled: false\na: {function: f, seconds: 1}");
    assert!(runs(&mut all_off, start, 5).is_empty());
}

#[test]
fn a_host_that_slept_runs_an_interval_once() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let mut plain = schedule("a: {function: f, seconds: 10}");
    plain.due(start);
    assert_eq!(plain.due(start.saturating_add(1000.seconds())).len(), 1);
    assert_eq!(plain.due(start.saturating_add(1001.seconds())).len(), 0);
    let mut daily = schedule("a: {function: f, when: '12:01'}");
    daily.due(start);
    assert_eq!(
        daily.due(start.saturating_add(1000.seconds())).len(),
        0,
        "too late"
    );
}

#[test]
fn times_of_day_and_of_the_week() {
    // A Saturday.
    let start = date(2026, 11, 21).at(16, 59, 50, 0);
    let mut daily = schedule("a: {function: f, when: ['5:00pm', 'Saturday 17:00:05']}");
    assert_eq!(runs(&mut daily, start, 30), [10, 15]);
    let monday = Moment::parse("Monday 5:00pm").unwrap();
    assert_eq!((monday.weekday, monday.day), (Some(Weekday::Monday), None));
    assert_eq!(
        monday.after(start),
        Some(date(2026, 11, 23).at(17, 0, 0, 0))
    );
}

/// What python-dateutil makes of each text on two days (`tests/data/make_dateutil.py`): the text and two times or nulls.
const CORPUS: &str = include_str!("../../tests/data/dateutil.json");

#[test]
fn times_are_read_as_dateutil_reads_them() {
    let corpus: Vec<(String, Option<String>, Option<String>)> =
        serde_json::from_str(CORPUS).unwrap();
    let days = [date(2026, 11, 21), date(2027, 2, 10)].map(|d| d.at(0, 0, 0, 0));
    let mut wrong = Vec::new();
    for (text, one, other) in &corpus {
        let moment = Moment::parse(text).ok();
        for (day, wanted) in days.iter().zip([one, other]) {
            // A time with a zone makes the schedule of a stock daemon fail.
            let zoned = wanted.as_ref().is_some_and(|w| w.contains('+'));
            let wanted: Option<DateTime> = match wanted {
                Some(w) if !zoned => Some(w.parse().unwrap()),
                _ => None,
            };
            let read = moment.and_then(|m| m.on(*day));
            if read != wanted {
                wrong.push(format!("{text:?}: {read:?}, dateutil {wanted:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(corpus.len() > 200);
}

#[test]
fn missing_fields_recur() {
    let start = date(2026, 11, 21).at(17, 0, 0, 0);
    let next = |text: &str| Moment::parse(text).unwrap().after(start).unwrap();
    assert_eq!(next("5:00pm"), date(2026, 11, 22).at(17, 0, 0, 0));
    assert_eq!(next("Sat 5:00pm"), date(2026, 11, 28).at(17, 0, 0, 0));
    assert_eq!(next("3rd 10:00"), date(2026, 12, 3).at(10, 0, 0, 0));
    assert_eq!(next("31 10:00"), date(2026, 12, 31).at(10, 0, 0, 0));
    assert_eq!(next("Nov 21 5pm"), date(2027, 11, 21).at(17, 0, 0, 0));
    assert_eq!(next("feb 29"), date(2028, 2, 29).at(0, 0, 0, 0));
    assert_eq!(next("Dec 10:00"), date(2026, 12, 1).at(10, 0, 0, 0));
    let past = Moment::parse("2026-11-21 16:59").unwrap();
    assert_eq!(past.after(start), None);
}

#[test]
fn an_interval_begins_with_a_run_from_3008_on() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let eager = |text: &str| runs(&mut schedule(text).eager(true), start, 25);
    assert_eq!(eager("a: {function: f, seconds: 10}"), [0, 10, 20]);
    assert_eq!(
        eager("a: {function: f, seconds: 10, run_on_start: false, splay: 0}"),
        [10, 20]
    );
    assert!(eager("a: {fun: f, when: '13:00'}").is_empty());
    let range = "range: {start: '12:00:15', end: '12:00:35'}";
    assert_eq!(
        eager(&format!("a: {{func: f, seconds: 10, {range}}}")),
        [0, 15]
    );
}

#[test]
fn cron_and_once() {
    let start = date(2026, 11, 21).at(12, 14, 50, 0);
    let mut cron = schedule("a: {function: f, cron: '*/15 * * * *'}");
    assert_eq!(runs(&mut cron, start, 1000), [10, 910]);
    let mut once = schedule("a: {function: f, once: '2026-11-21T12:15:00'}");
    assert_eq!(runs(&mut once, start, 100), [10]);
}

#[test]
fn ranges_and_ends() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let text = |more: &str| format!("a: {{function: f, seconds: 10, {more}}}");
    let mut within = schedule(&text("range: {start: '12:00:15', end: '12:00:35'}"));
    assert_eq!(runs(&mut within, start, 60), [15, 25, 35]);
    let mut outside = schedule(&text(
        "range: {start: '12:00:15', end: '12:00:35', invert: true}",
    ));
    assert_eq!(runs(&mut outside, start, 60), [10, 35, 45, 55]);
    let mut skipped = schedule(&text(
        "skip_during_range: {start: '12:00:15', end: '12:00:35'}",
    ));
    assert_eq!(runs(&mut skipped, start, 60), [10, 40, 50]);
    let mut until = schedule(&text("until: '2026-11-21T12:00:25'"));
    assert_eq!(runs(&mut until, start, 60), [10, 20]);
    let mut after = schedule(&text("after: '2026-11-21T12:00:25'"));
    assert_eq!(runs(&mut after, start, 60), [30, 40, 50]);
}

#[test]
fn splay_adds_a_little() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let mut splayed = schedule("a: {function: f, seconds: 60, splay: {start: 5, end: 9}}");
    let mut before = 0;
    for at in runs(&mut splayed, start, 600) {
        // Measured from the previous run, as in Salt.
        assert!((65..=69).contains(&(at - before)), "{at} after {before}");
        before = at;
    }
}

/// What stock's schedule runs (`tests/data/make_schedule.py`): the schedule, seconds, and the runs.
const STOCK: &str = include_str!("../../tests/data/schedule.json");

/// Schedules for which stock differs, and their runs here.
fn differs(text: &str) -> Option<&'static [i64]> {
    let is = |part: &str| text.contains(part);
    // Stock runs such a job twice if its loop takes a second.
    if is("once: ") && !is(" 11:00:10") {
        return Some(&[10]);
    }
    // Stock runs nothing while a skipped time is ahead.
    if is("seconds: 10, skip_explicit") {
        return Some(&[0, 10, 30, 40]);
    }
    // In stock the last check wins: `after` overrides `until`.
    is("after: ").then_some(()).filter(|()| is("until: "))?;
    Some(&[30, 40])
}

#[test]
fn jobs_run_when_stocks_do() {
    // A schedule, its duration in seconds, and the runs.
    type Case = (String, i64, Vec<(i64, String, String)>);
    let cases: Vec<Case> = serde_json::from_str(STOCK).unwrap();
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    for (text, seconds, wanted) in &cases {
        let mut schedule = schedule(text).eager(true);
        let mut ran = Vec::new();
        for at in 0..*seconds {
            let due = schedule.due(start.saturating_add(at.seconds()));
            ran.extend(due.into_iter().map(|spec| (at, spec.name, spec.function)));
        }
        match differs(text) {
            Some(times) => {
                let ran: Vec<i64> = ran.iter().map(|(at, ..)| *at).collect();
                assert_eq!(ran, times, "{text}");
            }
            // In stock, `skip_function` replaces the job from its first use on.
            None if text.contains("skip_function") => {
                let times = |all: &[(i64, String, String)]| -> Vec<(i64, String)> {
                    all.iter()
                        .map(|(at, name, _)| (*at, name.clone()))
                        .collect()
                };
                assert_eq!(times(&ran), times(wanted), "{text}");
            }
            None => assert_eq!(ran, *wanted, "{text}"),
        }
    }
    assert!(cases.len() > 30);
}

#[test]
fn skip_function_replaces_held_jobs() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let text = |more: &str| format!("skip_function: g\na: {{function: f, seconds: 10, {more}}}");
    let functions = |more: &str| -> String {
        let mut schedule = schedule(&text(more));
        let due = (1..50).flat_map(|at| schedule.due(start.saturating_add(at.seconds())));
        due.map(|spec| spec.function).collect()
    };
    let span = "{start: '12:00:15', end: '12:00:35'}";
    assert_eq!(functions(&format!("range: {span}")), "gffg");
    assert_eq!(functions(&format!("skip_during_range: {span}")), "fggf");
    let times = "[{time: '2026-11-21T12:00:21'}]";
    assert_eq!(functions(&format!("skip_explicit: {times}")), "fgff");
    assert_eq!(
        functions(&format!("skip_during_range: {span}, until: '12:00:25'")),
        "fg"
    );
}

#[test]
fn wrong_jobs_are_named_and_left_out() {
    let text = "good: {function: f, seconds: 1}\nno_time: {function: f}\nno_function: {seconds: 1}\n\
                both: {function: f, seconds: 1, when: '5pm'}\nzero: {function: f, seconds: 0}\n\
                text: nonsense\ncron: {function: f, cron: 'x'}\noff: {function: f, seconds: 1}\n";
    let (schedule, errors) = Schedule::new(&yaml::parse(text).unwrap().into_map().unwrap());
    assert_eq!(schedule.specs().count(), 1);
    assert_eq!(errors.len(), 7, "{errors:?}");
    let good = |e: &String| e.starts_with("schedule: ") && e.ends_with("; the job is left out");
    assert!(errors.iter().all(good), "{errors:?}");
    let number = Map(vec![(5.into(), Value::Map(Map::new()))]);
    let (_, errors) = Schedule::new(&number);
    assert!(errors[0].contains("5: its name is not text"), "{errors:?}");
}

#[test]
fn jobs_that_stay_as_they_are_keep_their_times() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let at = |n: i64| start.saturating_add(n.seconds());
    let map = |text: &str| yaml::parse(text).unwrap().into_map().unwrap();
    let mut schedule = schedule("a: {function: f, seconds: 10}\nb: {function: f, seconds: 10}");
    assert_eq!(schedule.next(), Some(DateTime::MIN), "not planned yet");
    schedule.due(start);
    assert_eq!(schedule.next(), Some(at(10)));
    schedule.update(&map(
        "a: {function: f, seconds: 10}\nb: {function: f, seconds: 60}",
    ));
    schedule.plan(at(5));
    assert_eq!(schedule.status("a").unwrap().next, Some(at(10)));
    assert_eq!(schedule.status("b").unwrap().next, Some(at(65)));
    assert_eq!(schedule.status("c"), None);
    assert_eq!(schedule.due(at(10)).len(), 1);
    assert_eq!(schedule.status("a").unwrap().last, Some(at(10)));
    schedule.update(&map("enabled: false\na: {function: f, seconds: 10}"));
    assert_eq!(schedule.next(), None);
}

#[test]
fn explicit_times() {
    let start = date(2026, 11, 21).at(12, 0, 0, 0);
    let text = "a: {function: f, seconds: 10, skip_explicit: [{time: '2026-11-21T12:00:20'}], \
                run_explicit: [{time: '21.11.2026 12:00:25', time_fmt: '%d.%m.%Y %H:%M:%S'}]}";
    assert_eq!(runs(&mut schedule(text), start, 45), [10, 25, 35]);
    let once = "a: {function: f, once: '21.11.2026 12:00', once_fmt: '%d.%m.%Y %H:%M'}";
    let mut once = schedule(once);
    assert_eq!(
        runs(&mut once, start.saturating_add((-5).seconds()), 10),
        [5]
    );
    let global = "splay: {start: 3, end: 3}\nskip_function: x\na: {function: f, seconds: 10}";
    assert_eq!(runs(&mut schedule(global), start, 30), [13, 26]);
}

#[test]
fn runs_are_named_by_the_time_they_were_due() {
    let start = date(2026, 11, 21).at(12, 0, 7, 0);
    let at = |minute, second| date(2026, 11, 21).at(12, minute, second, 0);
    let named = |text: &str, seconds: i64| -> Vec<DateTime> {
        let mut schedule = schedule(text);
        let due = (0..seconds).flat_map(|n| schedule.runs(start.saturating_add((3 * n).seconds())));
        due.map(|run| run.at).collect()
    };
    // Whoever looks late, or has drawn another delay, names it alike.
    assert_eq!(
        named("a: {function: f, cron: '* * * * *'}", 41),
        [at(1, 0), at(2, 0)]
    );
    assert_eq!(
        named("a: {function: f, cron: '*/5 * * * *', splay: 20}", 120),
        [at(5, 0)]
    );
    let explicit =
        "a: {function: f, cron: '0 0 * * *', run_explicit: [{time: '2026-11-21T12:01:03'}]}";
    assert_eq!(named(explicit, 30), [at(1, 3)]);
    assert_eq!(
        named("a: {function: f, seconds: 60}", 45),
        [at(1, 7), at(2, 7)]
    );
}
