//! `nats-server`, and a small client for it that shares no code with the programs under test.

use super::ports::Ports;
use super::process::Process;
use super::{short_dir, wait_for, wait_until};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A server on its own port, which is stopped when this is dropped.
pub struct NatsServer {
    /// Where it listens.
    host: Ipv4Addr,
    /// Its port; the same after a restart.
    pub port: u16,
    /// Port of its monitoring pages; 0 if a file says all ports.
    monitor: u16,
    arguments: Vec<String>,
    program: PathBuf,
    process: Option<Process>,
    dir: tempfile::TempDir,
}

impl NatsServer {
    /// Starts a server with further arguments (`--user x --pass y`, ...). `None`, with a message, if it is not installed.
    pub fn start(arguments: &[&str]) -> Option<NatsServer> {
        let held = Ports::hold(2);
        let (port, monitor) = (held.numbers()[0], held.numbers()[1]);
        let mut server = NatsServer {
            host: Ipv4Addr::LOCALHOST,
            port,
            monitor,
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            program: program()?,
            process: None,
            dir: short_dir(),
        };
        held.release();
        server.restart();
        Some(server)
    }

    /// Starts a server with a configuration file, which says that it listens on this port of this host.
    pub fn start_configured(file: &Path, port: u16) -> Option<NatsServer> {
        let mut server = NatsServer {
            host: Ipv4Addr::LOCALHOST,
            port,
            monitor: 0,
            arguments: vec!["-c".to_owned(), file.display().to_string()],
            program: program()?,
            process: None,
            dir: short_dir(),
        };
        server.restart();
        Some(server)
    }

    /// Servers at these addresses that keep JetStream's data together, not started yet. `None`, with a message, if it is not installed.
    pub fn cluster(hosts: [Ipv4Addr; 3]) -> Option<[NatsServer; 3]> {
        let program = program()?;
        let held = Ports::hold(9);
        let ports: Vec<[u16; 3]> = held.numbers().as_chunks().0.to_vec();
        let route = |n: usize| format!("nats://{}:{}", hosts[n], ports[n][2]);
        let routes = [0, 1, 2].map(route).join(",");
        let server = |n: usize| {
            let [port, monitor, _] = ports[n];
            let (name, own) = (server_name(n), route(n));
            let words = ["--jetstream", "--store_dir", "jetstream"];
            let names = ["--server_name", &name, "--cluster_name", "three"];
            let links = ["--cluster", &own, "--routes", &routes];
            let arguments = [&words[..], &names[..], &links[..]].concat();
            NatsServer {
                host: hosts[n],
                port,
                monitor,
                arguments: arguments.into_iter().map(str::to_owned).collect(),
                program: program.clone(),
                process: None,
                dir: short_dir(),
            }
        };
        Some([0, 1, 2].map(server))
    }

    /// Starts a server that requires TLS, with a certificate for `localhost`, and client certificates of the same CA.
    pub fn start_tls(ca: &Path, certificate: &Path, key: &Path) -> Option<NatsServer> {
        let text = |path: &Path| path.display().to_string();
        let (ca, certificate, key) = (text(ca), text(certificate), text(key));
        NatsServer::start(&[
            "--tlsverify",
            "--tlscacert",
            &ca,
            "--tlscert",
            &certificate,
            "--tlskey",
            &key,
        ])
    }

    /// Starts it again, after [`NatsServer::kill`].
    pub fn restart(&mut self) {
        let mut command = Command::new(&self.program);
        if self.monitor != 0 {
            command
                .args(["-a", &self.host.to_string(), "-p", &self.port.to_string()])
                .args(["-m", &self.monitor.to_string()]);
        }
        command.args(&self.arguments).current_dir(self.dir.path());
        let log = self.dir.path().join("log");
        let mut process = Process::start("nats-server", &mut command, &log);
        wait_until("nats-server greets", || {
            process.must_live();
            greets((self.host, self.port))
        });
        self.process = Some(process);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }

    /// Stops it as a machine that hangs: what is sent to it waits.
    pub fn pause(&self) {
        self.signal(nix::sys::signal::Signal::SIGSTOP);
    }

    /// Lets it go on after [`NatsServer::pause`].
    pub fn resume(&self) {
        self.signal(nix::sys::signal::Signal::SIGCONT);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// Kills it, removes all that it has stored below its directory, and starts it again.
    pub fn lose_data(&mut self) {
        self.kill();
        for entry in std::fs::read_dir(self.dir.path()).expect("its directory can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).expect("a directory can be removed");
            }
        }
        self.restart();
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it does not run.
    pub fn id(&self) -> u32 {
        let process = self.process.as_ref().expect("it runs");
        u32::try_from(process.id()).expect("process ids are positive")
    }

    /// Whether it was started, and not killed since.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// A client connected to it.
    pub fn client(&self) -> NatsClient {
        NatsClient::connect((self.host, self.port))
    }

    /// A page of its monitoring port; `None` if it does not answer.
    fn page(&self, path: &str) -> Option<Value> {
        let asked = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        let mut text = String::new();
        let mut stream = TcpStream::connect((self.host, self.monitor)).ok()?;
        stream.write_all(asked.as_bytes()).ok()?;
        stream.read_to_string(&mut text).ok()?;
        let (_, body) = text.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// Its connections, from its monitoring port.
    pub fn connections(&self) -> Vec<Value> {
        let report = self.page("/connz?subs=1&limit=100000");
        let report = report.expect("nats-server lists its connections");
        report["connections"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The name of the server that leads all of them, and of those that lead a stream each, as far as it knows; `None` while it
    /// knows none.
    pub fn leaders(&self) -> Option<Leaders> {
        let report = self.page("/jsz?accounts=true&streams=true")?;
        let name = |value: &Value| value["leader"].as_str().map(str::to_owned);
        let all = name(&report["meta_cluster"])?;
        let streams = report["account_details"][0]["stream_detail"].as_array();
        let streams = streams.into_iter().flatten().filter_map(|stream| {
            let leader = name(&stream["cluster"]).filter(|leader| !leader.is_empty())?;
            Some((stream["name"].as_str()?.to_owned(), leader))
        });
        Some(Leaders {
            of_all: Some(all).filter(|all| !all.is_empty())?,
            of_streams: streams.collect(),
        })
    }

    /// The servers that take part in what this one leads, by their names, and how many it expects; `None` if it leads nothing.
    pub fn members(&self) -> Option<(BTreeSet<String>, u64)> {
        let report = self.page("/jsz")?;
        let meta = &report["meta_cluster"];
        let followers = meta["replicas"].as_array()?.iter();
        let is_there = |one: &&Value| one["current"] == true && one["offline"] != true;
        let names = followers.filter(is_there).map(|one| &one["name"]);
        let names = names.chain([&meta["leader"]]);
        let names = names.filter_map(|name| name.as_str().map(str::to_owned));
        Some((names.collect(), meta["cluster_size"].as_u64()?))
    }

    /// What it has of each stream, and who reads it.
    pub fn streams(&self) -> Value {
        let report = self.page("/jsz?accounts=true&streams=true&consumers=true");
        report.map_or(Value::Null, |report| report["account_details"].clone())
    }

    /// How many connections are subscribed to exactly this subject.
    pub fn hearers(&self, subject: &str) -> usize {
        let all = self.connections();
        let lists = all
            .iter()
            .filter_map(|one| one["subscriptions_list"].as_array());
        lists
            .filter(|list| list.iter().any(|own| own == subject))
            .count()
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process
            .as_ref()
            .map(Process::output)
            .unwrap_or_default()
    }
}

/// Who leads among servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaders {
    /// The name of the server that decides where streams are.
    pub of_all: String,
    /// The name of the leader of each stream, by the name of the stream.
    pub of_streams: HashMap<String, String>,
}

impl Leaders {
    /// The names of all of them.
    pub fn names(&self) -> BTreeSet<&str> {
        let streams = self.of_streams.values().map(String::as_str);
        streams.chain([self.of_all.as_str()]).collect()
    }
}

/// The name of the nth server of a cluster.
pub fn server_name(n: usize) -> String {
    format!("server{n}")
}

/// The program: `HALITE_NATS_SERVER`, or that of the package.
///
/// # Panics
/// If what the variable names is not there.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("HALITE_NATS_SERVER").filter(|path| !path.is_empty());
    if let Some(path) = named.map(PathBuf::from) {
        assert!(path.exists(), "HALITE_NATS_SERVER: {}", path.display());
        return Some(path);
    }
    let known = [
        "/usr/sbin/nats-server",
        "/usr/bin/nats-server",
        "/usr/local/bin/nats-server",
    ];
    let found = known.iter().map(Path::new).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: there is no nats-server; install the package nats-server");
    }
    found.map(Path::to_owned)
}

fn greets(address: (Ipv4Addr, u16)) -> bool {
    let Ok(stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("INFO ")
}

/// A message received by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsMessage {
    /// Its subject.
    pub subject: String,
    /// Its reply subject.
    pub reply: Option<String>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A client that waits for messages.
pub struct NatsClient {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    subscriptions: usize,
    early: std::collections::VecDeque<NatsMessage>,
}

impl NatsClient {
    /// Connects.
    fn connect(address: (Ipv4Addr, u16)) -> NatsClient {
        let stream = wait_for("a connection to nats-server", || {
            TcpStream::connect(address).ok()
        });
        stream.set_nodelay(true).expect("a socket takes options");
        let mut client = NatsClient {
            reader: BufReader::new(stream.try_clone().expect("a socket can be shared")),
            writer: stream,
            subscriptions: 0,
            early: Default::default(),
        };
        client.line();
        client.write("CONNECT {\"verbose\":false,\"pedantic\":true,\"name\":\"test\",\"lang\":\"test\",\"version\":\"1\"}\r\n");
        client.settle();
        client
    }

    fn write(&mut self, text: impl AsRef<[u8]>) {
        let written = self.writer.write_all(text.as_ref());
        written.expect("nats-server takes what is written");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        read.expect("nats-server says something");
        assert!(!line.is_empty(), "nats-server has closed the connection");
        line.trim_end().to_owned()
    }

    /// Waits until the server has processed everything that was written. Messages that come meanwhile are stored.
    pub fn settle(&mut self) {
        self.write("PING\r\n");
        loop {
            let line = self.line();
            match line.as_str() {
                "PONG" => return,
                _ => {
                    let message = self.message(&line);
                    self.early.extend(message);
                }
            }
        }
    }

    /// Subscribes to a subject, which may have wildcards, in a queue group if `group` is not empty. Returns when the server has
    /// processed it.
    pub fn subscribe(&mut self, subject: &str, group: &str) {
        self.subscriptions += 1;
        let id = self.subscriptions;
        self.write(format!("SUB {subject} {group} {id}\r\n"));
        self.settle();
    }

    /// Sends a message.
    pub fn publish(&mut self, subject: &str, payload: &[u8]) {
        self.publish_with_reply(subject, "", payload);
    }

    /// Sends a message and returns the answer.
    pub fn request(&mut self, subject: &str, payload: &[u8]) -> NatsMessage {
        let inbox = format!("_INBOX.test.{}", self.subscriptions);
        self.subscribe(&inbox, "");
        self.publish_with_reply(subject, &inbox, payload);
        self.next()
    }

    fn publish_with_reply(&mut self, subject: &str, reply: &str, payload: &[u8]) {
        let head = format!("PUB {subject} {reply} {}\r\n", payload.len());
        let mut text = head.into_bytes();
        text.extend_from_slice(payload);
        text.extend_from_slice(b"\r\n");
        self.write(text);
    }

    fn message(&mut self, line: &str) -> Option<NatsMessage> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["MSG", subject, _, rest @ .., size] => {
                let mut payload = vec![0; size.parse::<usize>().expect("a size") + 2];
                let read = self.reader.read_exact(&mut payload);
                read.expect("a message is whole");
                payload.truncate(payload.len() - 2);
                Some(NatsMessage {
                    subject: (*subject).to_owned(),
                    reply: rest.first().map(|word| (*word).to_owned()),
                    payload,
                })
            }
            ["PING"] => {
                self.write("PONG\r\n");
                None
            }
            ["INFO", ..] | ["PONG"] => None,
            _ => panic!("nats-server says {line:?}"),
        }
    }

    /// The next message, if one comes within that time.
    pub fn within(&mut self, limit: Duration) -> Option<NatsMessage> {
        if let Some(message) = self.early.pop_front() {
            return Some(message);
        }
        let end = Instant::now() + limit;
        loop {
            // Only wait for the first byte: the rest of a line follows.
            let left = end.saturating_duration_since(Instant::now());
            let wait = left.max(Duration::from_millis(1));
            self.writer
                .set_read_timeout(Some(wait))
                .expect("a socket takes options");
            let there = self.reader.fill_buf().map(|bytes| !bytes.is_empty());
            self.writer
                .set_read_timeout(None)
                .expect("a socket takes options");
            match there {
                Ok(true) => {
                    let line = self.line();
                    if let Some(message) = self.message(&line) {
                        return Some(message);
                    }
                }
                Ok(false) => panic!("nats-server has closed the connection"),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if left.is_zero() {
                        return None;
                    }
                }
                Err(e) => panic!("nats-server: {e}"),
            }
        }
    }

    /// The next message.
    ///
    /// # Panics
    /// If none comes within [`LONG`](super::LONG).
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> NatsMessage {
        self.within(super::LONG).expect("a message comes")
    }
}
