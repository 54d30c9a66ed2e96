//! State runs that are cut off: what was done, is done once, and the master has a definite return.

use super::*;

/// Three states: the middle one waits until [`Run::go`] exists.
struct Run {
    jid: String,
    dir: PathBuf,
}

impl Run {
    /// Publishes the run, and waits until its second state has begun. The command of that state ends with the test's
    /// directory, whoever else is killed.
    fn start(pair: &mut Pair) -> Run {
        let dir = pair.minion.path("run");
        std::fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name).display().to_string();
        let wait = format!(
            "touch {}; while [ -e {} ] && [ ! -e {} ]; do sleep 0.01; done",
            at("waits"),
            at("waits"),
            at("go")
        );
        let log = at("log");
        let state = |order: i64, name: &str| -> Value {
            vec![
                Value::from("run"),
                halite::map! {"name" => name}.into(),
                halite::map! {"order" => order}.into(),
            ]
            .into()
        };
        let data = halite::map! {
            "first" => halite::map! {"cmd" => state(1, &format!("echo first >> {log}"))},
            "second" => halite::map! {"cmd" => state(2, &wait)},
            "third" => halite::map! {"cmd" => state(3, &format!("echo third >> {log}"))},
        };
        let jid = pair.publish("state.high", &[data.into()]);
        eventually("the second state", || dir.join("waits").exists());
        Run { jid, dir }
    }

    fn go(&self) {
        std::fs::write(self.dir.join("go"), "").unwrap();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// Checks that all three states ran once, and returned once.
    fn complete(&self, pair: &mut Pair) {
        let ret = pair.returned(&self.jid);
        let states = ret.get("return").and_then(Value::as_map).unwrap();
        let good = |one: &Value| one.as_map().and_then(|m| m.get("result")) == Some(&true.into());
        assert_eq!(states.iter().filter(|(_, one)| good(one)).count(), 3);
        assert_eq!(ret.int("retcode"), Some(0));
        assert_eq!(self.log(), "first\nthird\n");
        eventually("an empty spool", || pair.minion.waiting_results() == 0);
        let jobs = halite::store::Stores::open(&pair.master.config()).jobs;
        let job = jobs.get(&self.jid.parse().unwrap()).unwrap().unwrap();
        assert_eq!(job.returns.len(), 1);
    }
}

#[test]
fn a_run_outlives_the_minion() {
    let mut pair = Pair::start("", "");
    let run = Run::start(&mut pair);
    pair.minion.kill();
    pair.minion.restart();
    pair.ping_until_answered();
    pair.find_running(&run.jid);
    run.go();
    run.complete(&mut pair);
}

#[test]
fn a_run_outlives_the_master() {
    let mut pair = Pair::start("", "");
    let run = Run::start(&mut pair);
    pair.crash_master();
    run.go();
    eventually("the result in the spool", || {
        pair.minion.waiting_results() == 1
    });
    pair.restart_master();
    run.complete(&mut pair);
}

#[test]
fn a_run_that_is_killed_fails() {
    let mut pair = Pair::start("", "");
    let run = Run::start(&mut pair);
    let pid = pair.find_running(&run.jid).int("pid").unwrap();
    send(u32::try_from(pid).unwrap(), Signal::SIGKILL);
    let ret = pair.returned(&run.jid);
    assert!(
        text(&ret, "return").contains("was ended by signal"),
        "{ret:?}"
    );
    assert_eq!(ret.get("success"), Some(&false.into()));
    assert_ne!(ret.int("retcode"), Some(0));
    run.go();
    assert_eq!(run.log(), "first\n", "nothing more was done");
    // The next run is not refused.
    let ret = pair.run("state.single", &["test.nop".into(), "x".into()]);
    assert_eq!(ret.int("retcode"), Some(0), "{ret:?}");
}

#[test]
fn a_run_whose_minion_is_killed_as_well_fails() {
    let mut pair = Pair::start("", "");
    let run = Run::start(&mut pair);
    let pid = pair.find_running(&run.jid).int("pid").unwrap();
    pair.minion.kill();
    send(u32::try_from(pid).unwrap(), Signal::SIGKILL);
    eventually("the end of the job", || {
        !running(u32::try_from(pid).unwrap())
    });
    pair.minion.restart();
    let ret = pair.returned(&run.jid);
    assert_eq!(
        text(&ret, "return"),
        "The minion was ended while it ran the job."
    );
    assert_eq!(ret.get("success"), Some(&false.into()));
}
