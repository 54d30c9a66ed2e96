//! Children that are split off a process: what they have of their parent and what not.
//!
//! A program of its own with one thread: the harness of tests has several, and such a process is not split.

use halite::sys::fork::{RoleChild, fork_role, in_child};
use halite::sys::process::{RoleSpec, role};
use halite::sys::signals::{SignalPipe, StopFlag};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngCore;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::process::ExitStatusExt;

const TITLE: &str = "split-test Child with a title that is longer than its parent's";

/// Its name and what it does.
type Test = (&'static str, fn(&SignalPipe));

const TESTS: &[Test] = &[
    ("statuses_arrive", statuses_arrive),
    ("a_panic_stays_in_the_child", a_panic_stays_in_the_child),
    (
        "random_numbers_are_each_childs_own",
        random_numbers_are_each_childs_own,
    ),
    (
        "a_child_looks_like_an_executed_one",
        a_child_looks_like_an_executed_one,
    ),
    (
        "a_stop_that_comes_early_is_not_lost",
        a_stop_that_comes_early_is_not_lost,
    ),
    (
        "signals_of_a_child_do_not_wake_the_parent",
        signals_of_a_child_do_not_wake_the_parent,
    ),
    ("work_apart_tells_how_it_went", work_apart_tells_how_it_went),
    ("threads_forbid_it", threads_forbid_it),
];

/// The test that is asked for; the process that does the work has no words but its title.
const WANTED: &str = "SPLIT_WANTED";

/// As the harness of tests: `--list` lists (none with `--ignored`), a name runs that test, nothing runs all.
fn main() {
    if role().is_none() {
        let mut words = std::env::args().skip(1);
        let flags = ["--list", "--ignored"].map(|flag| std::env::args().any(|word| word == flag));
        match flags {
            [true, false] => return TESTS.iter().for_each(|(name, _)| println!("{name}: test")),
            [_, true] => return,
            [false, false] => (),
        }
        let wanted = words.find(|word| !word.starts_with('-'));
        let spec = RoleSpec {
            role: "main".into(),
            title: "split-test Main".into(),
            env: vec![(WANTED.into(), wanted.unwrap_or_default().into())],
        };
        panic!("{}", spec.exec());
    }
    let signals = SignalPipe::install().unwrap();
    let wanted = std::env::var(WANTED).unwrap_or_default();
    let asked: Vec<&Test> = TESTS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || *name == wanted)
        .collect();
    assert!(!asked.is_empty(), "there is no test {wanted}");
    for (name, test) in &asked {
        test(&signals);
        println!("test {name} ... ok");
    }
    println!("test result: ok. {} passed; 0 failed;", asked.len());
}

fn child(signals: &SignalPipe, run: impl FnOnce() -> i32) -> RoleChild {
    let spec = RoleSpec {
        role: "child".into(),
        title: TITLE.into(),
        env: vec![("SPLIT_TEST".into(), "its own".into())],
    };
    fork_role(&spec, signals, run).unwrap()
}

/// What a child says before it ends.
fn heard(signals: &SignalPipe, say: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let (read, write) = open_pipe();
    let mut child = child(signals, || {
        write_all(write, &say());
        0
    });
    nix::unistd::close(write).unwrap();
    let mut said = Vec::new();
    (&read).read_to_end(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    said
}

/// A pipe whose writing end, by its number, children have as well; the reading end they have not.
fn open_pipe() -> (File, i32) {
    let (read, write) = nix::unistd::pipe().unwrap();
    let private = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
    nix::fcntl::fcntl(&read, private).unwrap();
    (read.into(), write.into_raw_fd())
}

fn write_all(number: i32, bytes: &[u8]) {
    let path = format!("/proc/self/fd/{number}");
    let mut file = File::options().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn statuses_arrive(signals: &SignalPipe) {
    assert_eq!(child(signals, || 7).wait().unwrap().code(), Some(7));
    let (read, write) = open_pipe();
    let mut waits = child(signals, move || {
        write_all(write, b"!");
        loop {
            std::thread::park();
        }
    });
    let mut one = [0];
    (&read).read_exact(&mut one).unwrap();
    nix::unistd::close(write).unwrap();
    assert!(waits.try_wait().unwrap().is_none(), "it runs");
    kill(Pid::from_raw(waits.id()), Signal::SIGKILL).unwrap();
    assert_eq!(waits.wait().unwrap().signal(), Some(9));
}

fn a_panic_stays_in_the_child(signals: &SignalPipe) {
    struct Owned(File);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.write_all(b"dropped").unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("owned");
    let owned = Owned(File::create(&path).unwrap());
    let mut child = child(signals, || {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("as it is meant to");
    });
    assert_eq!(child.wait().unwrap().code(), Some(101));
    assert_eq!(
        std::fs::read(&path).unwrap(),
        b"",
        "the child dropped what is not its own"
    );
    drop(owned);
    assert_eq!(std::fs::read(&path).unwrap(), b"dropped");
}

fn random_numbers_are_each_childs_own(signals: &SignalPipe) {
    let numbers = || {
        let mut out = [[0u8; 16]; 3];
        rand::thread_rng().fill_bytes(&mut out[0]);
        openssl::rand::rand_bytes(&mut out[1]).unwrap();
        halite::crypto::fill_random(&mut out[2]);
        out.concat()
    };
    // All generators are in use when the children are made.
    numbers();
    let mut all: Vec<Vec<u8>> = (0..3).map(|_| heard(signals, numbers)).collect();
    all.push(numbers());
    let mut each: Vec<&[u8]> = all.iter().flat_map(|n| n.chunks(16)).collect();
    assert_eq!(each.len(), 12);
    each.sort();
    each.dedup();
    assert_eq!(each.len(), 12, "two processes got the same numbers");
}

fn a_child_looks_like_an_executed_one(signals: &SignalPipe) {
    let private = File::open("/proc/self/status").unwrap();
    let said = heard(signals, || {
        let open = std::fs::read_link(format!("/proc/self/fd/{}", private.as_raw_fd()));
        let stdin = std::fs::read_link("/proc/self/fd/0").unwrap();
        let words = [
            title(),
            role().unwrap(),
            std::env::var("SPLIT_TEST").unwrap(),
            stdin.display().to_string(),
            format!("{}", open.is_ok_and(|to| to.ends_with("status"))),
            format!("{}", nix::unistd::getpgrp() == Pid::this()),
            format!("{}", nix::sys::prctl::get_dumpable().unwrap()),
        ];
        words.join("\n").into_bytes()
    });
    let said = String::from_utf8(said).unwrap();
    let wanted = [
        TITLE,
        "child",
        "its own",
        "/dev/null",
        "false",
        "true",
        "true",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(title(), "split-test Main");
    assert!(std::env::var("SPLIT_TEST").is_err());
}

/// The title of this process in the process list.
fn title() -> String {
    let words = std::fs::read_to_string("/proc/self/cmdline").unwrap();
    words.strip_suffix('\0').unwrap_or(&words).to_owned()
}

fn a_stop_that_comes_early_is_not_lost(signals: &SignalPipe) {
    let (go, write) = nix::unistd::pipe().unwrap();
    let go = go.into_raw_fd();
    let mut child = child(signals, || {
        let path = format!("/proc/self/fd/{go}");
        let mut wait = File::open(path).unwrap();
        wait.read_exact(&mut [0]).unwrap();
        i32::from(!StopFlag::install().unwrap().is_set())
    });
    kill(Pid::from_raw(child.id()), Signal::SIGTERM).unwrap();
    nix::unistd::write(&write, b"!").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    nix::unistd::close(go).unwrap();
}

fn signals_of_a_child_do_not_wake_the_parent(signals: &SignalPipe) {
    // The ends of other children have.
    signals.wait(&[], 0).unwrap();
    let (read, write) = open_pipe();
    let mut child = child(signals, || {
        let stop = StopFlag::install().unwrap();
        kill(Pid::this(), Signal::SIGTERM).unwrap();
        // A signal to oneself has arrived when kill returns.
        write_all(write, &[u8::from(stop.is_set())]);
        loop {
            std::thread::park();
        }
    });
    nix::unistd::close(write).unwrap();
    let mut set = [0];
    (&read).read_exact(&mut set).unwrap();
    assert_eq!(set, [1]);
    let mut pipe = [zmq::PollItem::from_fd(signals.as_raw_fd(), zmq::POLLIN)];
    assert_eq!(zmq::poll(&mut pipe, 0).unwrap(), 0);
    assert!(!signals.stop.is_set());
    kill(Pid::from_raw(child.id()), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
}

fn work_apart_tells_how_it_went(_: &SignalPipe) {
    assert_eq!(in_child(|| Ok(())).unwrap(), Ok(()));
    let refused = in_child(|| Err("the disk is full".to_owned())).unwrap();
    assert_eq!(refused, Err("the disk is full".to_owned()));
    let died = in_child(|| {
        kill(Pid::this(), Signal::SIGKILL).unwrap();
        Ok(())
    });
    assert!(died.unwrap_err().to_string().contains("signal: 9"));
}

fn threads_forbid_it(_: &SignalPipe) {
    let (stay, held) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || held.recv());
    assert!(in_child(|| Ok(())).is_err());
    drop(stay);
    assert!(thread.join().unwrap().is_err());
}
