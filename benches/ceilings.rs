//! Upper limits of this machine for the operations that a master does most: `cargo bench --bench ceilings`.
//!
//! CPU milliseconds per operation: RSA and symmetric encryption by OpenSSL, one ZeroMQ round trip through a
//! proxy process to a worker process, and storing a return. `benches/compare` shows them next to the
//! figures of the masters. `--quick` runs fewer of each; `--json` prints one object. Slow results are not
//! failures.

use halite::store::jobs::JobStore;
use halite::store::local::JobLog;
use halite::sys::procs;
use halite::wire::ids::{JidClock, MinionId};
use halite::wire::{Map, Value};
use nix::sys::resource::{UsageWho, getrusage};
use openssl::hash::MessageDigest;
use openssl::memcmp;
use openssl::pkey::{PKey, Private};
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{Signer, Verifier};
use openssl::symm::{Cipher, decrypt, encrypt};
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Variable that tells a process of the ZeroMQ measurement its role.
const ROLE: &str = "HALITE_CEILINGS_ROLE";
/// Variable with the path of the socket on which the worker finds the proxy.
const IPC: &str = "HALITE_CEILINGS_IPC";
/// Bytes of a request and of a reply, about the size of a return.
const REQUEST: usize = 512;

/// Collects the figures.
struct Ceilings {
    /// Fraction of the usual number of runs.
    share: f64,
    found: Vec<(String, f64)>,
}

impl Ceilings {
    /// Runs `body` about `times` times in this thread; records CPU ms per run.
    fn run(&mut self, name: &str, times: u32, mut body: impl FnMut()) {
        let times = self.times(times);
        // Warm up caches and lazily initialized parts of libraries.
        body();
        let before = own_cpu();
        (0..times).for_each(|_| body());
        self.record(name, own_cpu().saturating_sub(before), times);
    }

    fn times(&self, times: u32) -> u32 {
        ((f64::from(times) * self.share) as u32).max(1)
    }

    fn record(&mut self, name: &str, cpu: Duration, times: u32) {
        self.found.push((
            name.to_owned(),
            cpu.as_secs_f64() * 1000.0 / f64::from(times),
        ));
    }
}

/// CPU time of this process, user and system.
fn own_cpu() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF).expect("every process has usage");
    let micros =
        [used.user_time(), used.system_time()].map(|t| t.tv_sec() * 1_000_000 + t.tv_usec());
    Duration::from_micros(micros.iter().sum::<i64>().try_into().unwrap_or_default())
}

fn rsa(c: &mut Ceilings) {
    let rsa = Rsa::generate(2048).expect("a key can be made");
    let key = PKey::from_rsa(rsa.clone()).expect("a key");
    let mut sealed = vec![0; rsa.size() as usize];
    let mut opened = sealed.clone();
    let text = [7u8; 60];
    c.run("rsa encrypt", 20_000, || {
        rsa.public_encrypt(&text, &mut sealed, Padding::PKCS1_OAEP)
            .expect("the text fits");
    });
    c.run("rsa decrypt", 2000, || {
        rsa.private_decrypt(&sealed, &mut opened, Padding::PKCS1_OAEP)
            .expect("it was made with this key");
    });
    let sign = |key: &PKey<Private>| {
        let mut signer = Signer::new(MessageDigest::sha1(), key).expect("a signer");
        signer.sign_oneshot_to_vec(&text).expect("a signature")
    };
    let signature = sign(&key);
    c.run("rsa sign", 2000, || {
        black_box(sign(&key));
    });
    c.run("rsa verify", 20_000, || {
        let mut verifier = Verifier::new(MessageDigest::sha1(), &key).expect("a verifier");
        assert!(verifier.verify_oneshot(&signature, &text).expect("a check"));
    });
}

/// AES-192-CBC, and HMAC-SHA256 over IV and ciphertext, as in Salt's Crypticle.
fn crypticle(c: &mut Ceilings) {
    let cipher = Cipher::aes_192_cbc();
    let (aes, iv) = ([1u8; 24], [2u8; 16]);
    let mac = PKey::hmac(&[3u8; 24]).expect("a key");
    let code = |sealed: &[u8]| {
        let mut signer = Signer::new(MessageDigest::sha256(), &mac).expect("a signer");
        signer.sign_oneshot_to_vec(sealed).expect("a code")
    };
    for (size, times) in [(300, 100_000), (4096, 50_000), (1 << 20, 300)] {
        let plain = vec![7u8; size];
        let sealed = encrypt(cipher, &aes, Some(&iv), &plain).expect("it can be sealed");
        let wanted = code(&sealed);
        c.run(&format!("crypticle seal {size}"), times, || {
            let sealed = encrypt(cipher, &aes, Some(&iv), black_box(&plain)).expect("sealed");
            black_box(code(&sealed));
        });
        c.run(&format!("crypticle open {size}"), times, || {
            assert!(memcmp::eq(&code(black_box(&sealed)), &wanted));
            black_box(decrypt(cipher, &aes, Some(&iv), &sealed).expect("opened"));
        });
    }
}

fn store(c: &mut Ceilings) {
    let dir = tempfile::tempdir().expect("a directory");
    let line = [7u8; 400];
    let path = dir.path().join("raw");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("a file");
    c.run("one write of 400 octets to a file", 100_000, || {
        file.write_all(&line).expect("it is written");
    });
    let jobs = JobLog::new(dir.path(), 3600, None);
    let jid = JidClock::default().next();
    let ids: Vec<MinionId> = (0..1000)
        .map(|n| format!("minion-{n}").parse().expect("an id"))
        .collect();
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let load = halite::map! {"fun" => "test.ping", "tgt" => "*"};
    jobs.save_load(&jid, &load, &names, &[])
        .expect("it is kept");
    let returns: Vec<Map> = ids.iter().map(|id| one_return(id, jid.as_str())).collect();
    let mut at = 0;
    c.run("job store append", 50_000, || {
        jobs.save_return(&jid, &ids[at], &returns[at])
            .expect("it is kept");
        at = (at + 1) % ids.len();
    });
}

fn one_return(id: &MinionId, jid: &str) -> Map {
    halite::map! {
        "cmd" => "_return", "id" => id.as_str(), "success" => true, "return" => true, "retcode" => 0,
        "jid" => jid, "fun" => "test.ping", "fun_args" => Vec::<Value>::new(), "user" => "root",
    }
}

/// A process of the ZeroMQ measurement; it exits when its standard input is closed.
struct Peer(Child);

impl Peer {
    /// Starts this program in a role; also returns the line that it prints when it is ready.
    fn start(role: &str, ipc: &Path) -> (Peer, String) {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .env(ROLE, role)
            .env(IPC, ipc)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let out = child.stdout.take().expect("its output is a pipe");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("a line");
        (Peer(child), line.trim().to_owned())
    }

    fn cpu(&self) -> Duration {
        procs::cpu(self.0.id()).expect("its CPU time can be read")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs the proxy or the worker, until the program that started it exits.
fn peer(role: &str) {
    let ipc = std::env::var(IPC).expect("the path of the socket");
    let url = format!("ipc://{ipc}");
    let context = zmq::Context::new();
    let socket = |kind| context.socket(kind).expect("a socket");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    if role == "proxy" {
        let (front, back) = (socket(zmq::ROUTER), socket(zmq::DEALER));
        front.bind("tcp://127.0.0.1:*").expect("a port");
        back.bind(&url).expect("a local socket");
        let endpoint = front.get_last_endpoint().expect("it is bound");
        println!("{}", endpoint.unwrap_or_else(|e| panic!("{e:?}")));
        zmq::proxy(&front, &back).expect("it goes on until the end");
    }
    let worker = socket(zmq::REP);
    worker.connect(&url).expect("the proxy is there");
    println!("ready");
    loop {
        let request = worker.recv_bytes(0).expect("a request");
        worker.send(request, 0).expect("a reply");
    }
}

/// Round trips from one REQ socket per client through a proxy process to a worker process.
fn zeromq(c: &mut Ceilings) {
    let dir = tempfile::tempdir().expect("a directory");
    let ipc = dir.path().join("w");
    let (proxy, endpoint) = Peer::start("proxy", &ipc);
    let (worker, _) = Peer::start("worker", &ipc);
    let context = zmq::Context::new();
    for (clients, times) in [(1, 10_000), (64, 60_000)] {
        let times = c.times(times);
        let sockets: Vec<zmq::Socket> = (0..clients)
            .map(|_| {
                let socket = context.socket(zmq::REQ).expect("a socket");
                socket.connect(&endpoint).expect("the proxy is there");
                socket
            })
            .collect();
        round_trips(&sockets, clients as u32);
        let before = proxy.cpu() + worker.cpu();
        round_trips(&sockets, times);
        let after = proxy.cpu() + worker.cpu();
        c.record(
            &format!("zmq hop {clients}"),
            after.saturating_sub(before),
            times,
        );
    }
}

/// Keeps one request per socket in flight until there were `times` replies.
fn round_trips(sockets: &[zmq::Socket], times: u32) {
    let request = [7u8; REQUEST];
    let (mut begun, mut ended) = (0, 0);
    for socket in sockets {
        socket.send(&request[..], 0).expect("it is sent");
        begun += 1;
    }
    let mut items: Vec<zmq::PollItem> = sockets
        .iter()
        .map(|s| s.as_poll_item(zmq::POLLIN))
        .collect();
    while ended < begun {
        zmq::poll(&mut items, 10_000).expect("a reply");
        for (item, socket) in items.iter().zip(sockets) {
            if item.is_readable() {
                assert_eq!(socket.recv_bytes(0).expect("a reply").len(), REQUEST);
                ended += 1;
                if begun < times {
                    socket.send(&request[..], 0).expect("it is sent");
                    begun += 1;
                }
            }
        }
    }
}

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return peer(&role);
    }
    let asked = |option: &str| std::env::args().any(|a| a == option);
    let mut ceilings = Ceilings {
        share: if asked("--quick") { 0.01 } else { 1.0 },
        found: Vec::new(),
    };
    rsa(&mut ceilings);
    crypticle(&mut ceilings);
    store(&mut ceilings);
    zeromq(&mut ceilings);
    if asked("--json") {
        let object: serde_json::Map<_, _> = ceilings
            .found
            .into_iter()
            .map(|(name, ms)| (name, ms.into()))
            .collect();
        println!("{:#}", serde_json::Value::Object(object));
    } else {
        for (name, ms) in ceilings.found {
            println!("{name:<36} {ms:.5} CPU ms");
        }
    }
}
