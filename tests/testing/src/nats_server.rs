//! `nats-server`, and a small client for it that shares no code with the programs under test.

use super::ports::Ports;
use super::process::Process;
use super::{short_dir, wait_for, wait_until};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A server on its own loopback port, which is stopped when this is dropped.
pub struct NatsServer {
    /// Its port; the same after a restart.
    pub port: u16,
    monitor: u16,
    arguments: Vec<String>,
    program: PathBuf,
    process: Option<Process>,
    dir: tempfile::TempDir,
}

impl NatsServer {
    /// Starts a server with further arguments (`--user x --pass y`, ...). `None`, with a message, if it is not installed.
    pub fn start(arguments: &[&str]) -> Option<NatsServer> {
        let known = [
            "/usr/sbin/nats-server",
            "/usr/bin/nats-server",
            "/usr/local/bin/nats-server",
        ];
        let Some(program) = known.iter().map(Path::new).find(|path| path.exists()) else {
            eprintln!("skipped: there is no nats-server; install the package nats-server");
            return None;
        };
        let held = Ports::hold(2);
        let (port, monitor) = (held.numbers()[0], held.numbers()[1]);
        held.release();
        let mut server = NatsServer {
            port,
            monitor,
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            program: program.to_owned(),
            process: None,
            dir: short_dir(),
        };
        server.restart();
        Some(server)
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
        command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-m", &self.monitor.to_string()])
            .args(&self.arguments)
            .current_dir(self.dir.path());
        let log = self.dir.path().join("log");
        let mut process = Process::start("nats-server", &mut command, &log);
        wait_until("nats-server greets", || {
            process.must_live();
            greets(self.port)
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

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A client connected to it.
    pub fn client(&self) -> NatsClient {
        NatsClient::connect(self.port)
    }

    /// Its connections, from its monitoring port.
    pub fn connections(&self) -> Vec<serde_json::Value> {
        let asked = "GET /connz?subs=1&limit=100000 HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let mut text = String::new();
        let read =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.monitor)).and_then(|mut stream| {
                stream.write_all(asked.as_bytes())?;
                stream.read_to_string(&mut text)
            });
        read.expect("nats-server lists its connections");
        let (_, body) = text.split_once("\r\n\r\n").expect("an HTTP response");
        let report: serde_json::Value = serde_json::from_str(body).expect("a JSON body");
        report["connections"]
            .as_array()
            .cloned()
            .unwrap_or_default()
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

fn greets(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
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
    pub fn connect(port: u16) -> NatsClient {
        let stream = wait_for("a connection to nats-server", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
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
        let mut text = format!("PUB {subject} {}\r\n", payload.len()).into_bytes();
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
