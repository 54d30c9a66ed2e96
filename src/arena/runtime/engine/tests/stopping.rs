//! Whatever a module does, it ends when it is told to.

use super::*;

/// Starts a module, waits until it has done something, tells it to end, and returns how it ended.
fn stopped(spec: Spec, room: usize, seen: usize) -> End {
    let run = try_start(spec, room).expect("it starts");
    for _ in 0..seen {
        run.next();
    }
    run.running.stop();
    run.rest().1
}

#[test]
fn a_busy_loop_ends_with_its_slice() {
    let (to, told) = channel();
    let host = Arc::new(Teller {
        to: Mutex::new(to),
        room: Mutex::new(0),
    });
    // Told to end before it starts, it runs one slice, whatever that costs, and no second one.
    let end = super::super::attempt(&spec(module("spin")), host, 1000).expect("it starts");
    assert_eq!(end, deleted());
    drop(told);
    assert_eq!(stopped(spec(module("spin")), 0, 0), deleted());
}

/// The exit code of a module that has one slice of so much fuel; none if that was too little.
fn within(spec: Spec, fuel: u64) -> Option<i32> {
    let (to, _told) = channel();
    let host = Arc::new(Teller {
        to: Mutex::new(to),
        room: Mutex::new(0),
    });
    super::super::attempt(&spec, host, fuel)
        .expect("it starts")
        .code
}

/// A call costs at least as much as the work that it makes: a module that calls in a loop ends in time, whatever it calls.
#[test]
fn calls_cost_what_they_take() {
    let paths = "i32 i32 i32 i32 i32";
    let calls = [
        ("args_get", "i32 i32", "(i32.const 0) (i32.const 8192)"),
        ("environ_get", "i32 i32", "(i32.const 0) (i32.const 8192)"),
        (
            "fd_read",
            "i32 i32 i32 i32",
            "(i32.const 0) (i32.const 16384) (i32.const 1024) (i32.const 0)",
        ),
        (
            "fd_write",
            "i32 i32 i32 i32",
            "(i32.const 1) (i32.const 16384) (i32.const 1024) (i32.const 0)",
        ),
        (
            "poll_oneoff",
            "i32 i32 i32 i32",
            "(i32.const 16384) (i32.const 0) (i32.const 500) (i32.const 65000)",
        ),
        ("random_get", "i32 i32", "(i32.const 0) (i32.const 65536)"),
        (
            "path_filestat_get",
            paths,
            "(i32.const 3) (i32.const 0) (i32.const 16384) (i32.const 1) (i32.const 0)",
        ),
    ];
    for (name, types, args) in calls {
        let code = format!(
            "(module
            (import \"wasi_snapshot_preview1\" \"{name}\" (func $call (param {types}) (result i32)))
            (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
            (memory (export \"memory\") 1)
            (func (export \"_start\") (local $n i32)
              (loop $again
                (drop (call $call {args}))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $again (i32.lt_u (local.get $n) (i32.const 20))))
              (call $exit (local.get $n))))"
        );
        let mut spec = spec(wat(&code));
        spec.argv = vec!["a".into(); 1000];
        spec.env = vec!["A=1".into(); 1000];
        let channel = |n: usize| Channel::new(&format!("c{n}"), Mode::Read, "realm/x").ok();
        spec.channels = (0..256).filter_map(channel).collect();
        assert_eq!(within(spec.clone(), 1_000_000), Some(20), "{name}");
        // Without a price for what a call does, twenty calls would be far cheaper.
        assert_eq!(within(spec, 10_000), None, "{name}");
    }
}

#[test]
fn a_sleep_ends() {
    // Its output is passed on before it sleeps, although the line is incomplete.
    assert_eq!(stopped(spec(module("sleep")), 0, 1), deleted());
}

#[test]
fn a_read_ends_as_at_the_end_of_a_file() {
    let end = stopped(spec(module("echo")), 0, 1);
    assert_eq!((end.status, end.code), (ExitStatus::Deleted, Some(0)));
    let input = Spec {
        stdin: true,
        ..spec(module("cat"))
    };
    let end = stopped(input, 0, 0);
    assert_eq!(end.status, ExitStatus::Deleted);
}

#[test]
fn a_poll_ends() {
    let end = stopped(spec(module("poll")), 0, 2);
    assert_eq!((end.status, end.code), (ExitStatus::Deleted, Some(9)));
}

#[test]
fn a_message_that_waits_for_its_rate_ends() {
    let mut spec = spec(module("flood"));
    spec.limits.messages_per_second = 1;
    // Two at once, the next a second later.
    assert_eq!(stopped(spec, usize::MAX, 2), deleted());
}

#[test]
fn a_message_that_waits_for_room_ends() {
    assert_eq!(stopped(spec(module("flood")), 1, 1), deleted());
}

#[test]
fn output_that_waits_for_its_rate_ends() {
    let mut spec = spec(module("chatter"));
    spec.limits.output_per_second = 1;
    assert_eq!(stopped(spec, 0, 1), deleted());
}

#[test]
fn a_flood_of_lines_ends() {
    assert_eq!(stopped(spec(module("chatter")), 0, 10), deleted());
}

#[test]
fn a_module_that_nobody_holds_ends() {
    let run = start(spec(module("spin")));
    let Run { running, told, .. } = run;
    drop(running);
    let told = told.recv_timeout(PATIENCE).expect("it ends");
    assert_eq!(told, Told::Ended(deleted()));
}

#[test]
fn to_be_told_twice_changes_nothing() {
    let run = start(spec(module("spin")));
    run.running.stop();
    run.running.stop();
    assert_eq!(run.rest(), (vec![], deleted()));
    run.running.stop();
    run.deliver("realm/in", b"late");
    assert!(run.told.recv_timeout(Duration::ZERO).is_err());
}

/// A host that fails when there is output.
struct Clumsy(Mutex<Sender<End>>);

impl Host for Clumsy {
    fn allows(&self, _: &str) -> bool {
        true
    }

    fn publish(&self, _: &Uuid, _: &str, _: &[u8]) -> bool {
        true
    }

    fn subscribe(&self, _: &Uuid, _: &str) {}

    fn unsubscribe(&self, _: &Uuid, _: &str) {}

    fn output(&self, _: &Uuid, _: Stream, _: &[u8]) {
        panic!("as the test wants it");
    }

    fn ended(&self, _: &Uuid, end: End) {
        let to = self.0.lock().expect("not poisoned");
        to.send(end).expect("the test listens");
    }
}

#[test]
fn an_end_is_told_once_even_if_the_thread_fails() {
    let (to, ends) = channel();
    let host = Arc::new(Clumsy(Mutex::new(to)));
    let running = interpreter().start(spec(module("trap")), host.clone());
    let running = running.expect("it starts");
    let end = ends.recv_timeout(PATIENCE).expect("it ends");
    assert_eq!(end.status, ExitStatus::Crashed);
    assert_eq!(end.reason, "the interpreter failed");
    drop((running, host));
    // The thread's host was dropped with it, so nothing more can come.
    assert!(ends.recv_timeout(PATIENCE).is_err());
}

/// The nice value in a `stat` of a thread (proc(5): the 19th field), if the thread has this name.
fn nice(stat: &str, name: Option<&str>) -> Option<i32> {
    let (head, rest) = stat.rsplit_once(')')?;
    let fits = name.is_none_or(|name| head.ends_with(&format!("({name}")));
    fits.then(|| rest.split_whitespace().nth(16)?.parse().ok())?
}

#[test]
fn modules_stand_back_behind_the_connection() {
    let own = std::fs::read_to_string("/proc/thread-self/stat").expect("there are threads");
    let expected = (nice(&own, None).expect("a number") + 5).min(19);
    let run = start(Spec {
        uuid: "niced".parse().expect("an id"),
        ..spec(module("spin"))
    });
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let tasks = std::fs::read_dir("/proc/self/task").expect("there are threads");
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let found: Vec<i32> = stats
            .filter_map(|stat| nice(&stat, Some("wasm-niced")))
            .collect();
        if found == [expected] {
            break;
        }
        assert!(std::time::Instant::now() < end, "{found:?}, not {expected}");
        std::thread::yield_now();
    }
    run.running.stop();
    assert_eq!(run.rest().1, deleted());
}
