//! What is wrong with a configuration is said at once, with the entry and the remedy.

use super::{Ran, run};
use std::path::Path;

fn configured(dir: &Path, text: &str) {
    let text = format!("root_dir: {}\n{text}", dir.display());
    std::fs::write(dir.join("master"), text).unwrap();
}

fn check(dir: &Path, text: &str) -> Ran {
    configured(dir, text);
    let place = dir.to_str().unwrap();
    run("halite-master", dir, &["-c", place, "--check-config"])
}

#[test]
fn wrong_entries_of_schedule_and_reactor_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    std::fs::write(dir.path().join("x.sls"), "").unwrap();
    let good = format!(
        "schedule:\n  a: {{function: test.arg, minutes: 5}}\n  b: {{function: runner.test.arg, cron: '* * * * *'}}\n  \
         c: {{function: wheel.key.list_all, when: '5pm'}}\nreactor:\n  - 'a/*': ['{place}/x.sls', 'salt://y.sls']\n"
    );
    let ran = check(dir.path(), &good);
    assert_eq!(ran.status, Some(0), "{}{}", ran.out, ran.err);
    assert!(!ran.out.contains("schedule"), "{}", ran.out);
    assert!(!ran.out.contains("reactor"), "{}", ran.out);

    let wrong = "schedule:\n  time: {function: test.arg}\n  often: {function: test.arg, seconds: often}\n  \
                 none: {function: no.such, seconds: 1}\n  wheel: {function: wheel.no.such, seconds: 1}\n  text: x\n\
                 reactor:\n  - my/none:\n  - my/gone: /no/such.sls\n  - text\n";
    let ran = check(dir.path(), wrong);
    assert_eq!(ran.status, Some(0), "{}{}", ran.out, ran.err);
    for line in [
        "schedule: time: no time given: add seconds, ",
        "schedule: often: `seconds` must be a whole number, not \"often\"; the job is left out",
        "schedule: none: there is no function no.such; `halite-run -d` lists ",
        "schedule: wheel: there is no function wheel.no.such; ",
        "schedule: text: it is not a map; write ",
        "reactor: my/none: it names no files; write ",
        "reactor: my/gone: there is no file /no/such.sls; write ",
        "reactor: entry 3: it is not `tag: [files]`; ",
    ] {
        let line = format!("warning: {line}");
        assert!(ran.out.contains(&line), "{line}\n{}", ran.out);
    }

    for (wrong, told) in [
        ("schedule: [a]\n", "schedule"),
        ("reactor: {a: b}\n", "reactor"),
    ] {
        let ran = check(dir.path(), wrong);
        assert_eq!(ran.status, Some(1), "{wrong}");
        assert!(ran.err.contains(told), "{wrong}{}", ran.err);
    }
}

#[test]
fn a_syndic_without_an_upper_master_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    for text in ["", "syndic_master:\n", "syndic_master: ''\n"] {
        configured(dir.path(), text);
        for more in [&[][..], &["-d"]] {
            let args = [&["-c", place], more].concat();
            let ran = run("halite-syndic", dir.path(), &args);
            assert_eq!(ran.status, Some(1), "{text}{}", ran.err);
            let remedy = format!("write `syndic_master: HOST` into {place}/master");
            assert!(
                ran.err.contains("no upper master is configured"),
                "{}",
                ran.err
            );
            assert!(ran.err.contains(&remedy), "{}", ran.err);
        }
    }
}
