//! A master whose every answer is hostile: nobody believes it, and nobody ends because of it.

use super::call::call;
use super::pair::*;
use halite::client::local::{Job, LocalClient};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use testing::harness::{Master, eventually};

/// Named constants inside each other, as deep as the reader goes.
fn constants(count: usize) -> Vec<u8> {
    (0..count).fold(vec![0xc0], |inner, _| {
        let length = (inner.len() as u32 + 3).to_be_bytes();
        [&[0xc9][..], &length, b"\x4f\x92\xa1n", &inner].concat()
    })
}

fn answers() -> Vec<Vec<u8>> {
    let deep = constants(6000);
    let field = |name: &[u8]| [&b"\x81"[..], &[0xa0 | name.len() as u8], name, &deep].concat();
    vec![
        deep.clone(),
        field(b"load"),
        [&b"\x81\xa3ret"[..], &[0x91; 50_000], b"\xc0"].concat(),
        [&b"\xdd\x00\x80\x00\x00"[..], &vec![0xc0; 8 << 20]].concat(),
        b"\x82\xa3enc\xa5clear\xa3enc\xa3aes".to_vec(),
    ]
}

struct FalseMaster {
    port: u16,
    asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FalseMaster {
    fn start() -> FalseMaster {
        let (asked, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let socket = zmq::Context::new().socket(zmq::REP).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        socket.set_rcvtimeo(20).unwrap();
        let bound = socket.get_last_endpoint().unwrap().unwrap();
        let port = bound.rsplit(':').next().unwrap().parse().unwrap();
        let (count, end) = (asked.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let answers = answers();
            while !end.load(Ordering::Relaxed) {
                if socket.recv_bytes(0).is_ok() {
                    let number = count.fetch_add(1, Ordering::Relaxed);
                    let _ = socket.send(&answers[number % answers.len()], 0);
                }
            }
        });
        FalseMaster {
            port,
            asked,
            stop,
            thread: Some(thread),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for FalseMaster {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

const PATIENT: &str = "acceptance_wait_time: 1\nauth_tries: 100\n";

#[test]
fn a_minion_survives_its_answers() {
    let master = FalseMaster::start();
    let mut minion = Minion::start([1, master.port], "m1", PATIENT);
    eventually("every answer was given", || {
        assert_eq!(minion.child.try_wait().unwrap(), None, "the minion ended");
        master.asked() > answers().len()
    });
}

#[test]
fn commands_survive_its_answers() {
    let master = FalseMaster::start();
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), [1, master.port], "m1", "auth_tries: 1\n");
    // Its status is not that of a signal.
    let (status, out, err) = call(dir.path(), &["test.ping"]);
    assert!(status > 0, "{out} {err}");
    let asked = master.asked();
    assert!(asked > 0);
    let real = Master::start("");
    let mut config = real.config();
    config.ret_port = master.port;
    for _ in answers() {
        let job = Job {
            fun: "test.ping".into(),
            tgt: "*".into(),
            tgt_type: "glob".into(),
            ..Job::default()
        };
        let published = LocalClient::new(config.clone()).publish(&job);
        assert!(published.is_err(), "{published:?}");
    }
    assert!(master.asked() >= asked + answers().len());
}
