//! `mosquitto`, and a client for it that waits for expected messages.

use super::authority::Issued;
use super::ports::{Ports, listens};
use super::process::Process;
use super::{LONG, short_dir, wait_until};
use crossbeam_channel::Receiver;
use halite::arena::mqtt::{Incoming, Mqtt, MqttEvent, MqttSettings, Publication, Qos, Unsent};
use nix::sys::signal::Signal;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SERVER: &str = "/usr/sbin/mosquitto";
const PASSWORDS: &str = "/usr/bin/mosquitto_passwd";

/// Configuration of a broker.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Users and their passwords. If there are any, other clients are refused.
    pub users: Vec<(String, String)>,
    /// TLS only: the CA and the certificate of the broker.
    pub tls: Option<(PathBuf, PathBuf, PathBuf)>,
    /// With TLS: clients need a certificate of the same CA, which names their user.
    pub certificates: bool,
    /// Lines of an ACL file; if empty, everything is allowed.
    pub acl: String,
    /// Further lines of the configuration.
    pub more: String,
}

impl Rules {
    /// Adds a user.
    pub fn user(mut self, name: &str, password: &str) -> Rules {
        self.users.push((name.to_owned(), password.to_owned()));
        self
    }

    /// Requires TLS.
    pub fn tls(mut self, ca: &Path, own: &Issued) -> Rules {
        self.tls = Some((ca.to_owned(), own.certificate.clone(), own.key.clone()));
        self
    }

    /// Requires client certificates.
    pub fn certificates(mut self) -> Rules {
        self.certificates = true;
        self
    }

    /// Adds lines to the ACL file, such as `user a` and `topic read x/#`.
    pub fn acl(mut self, lines: &str) -> Rules {
        self.acl = lines.to_owned();
        self
    }

    /// Adds lines to the configuration.
    pub fn more(mut self, lines: &str) -> Rules {
        self.more.push_str(lines);
        self.more.push('\n');
        self
    }
}

/// A broker on its own loopback port, which is stopped when this is dropped.
pub struct Mosquitto {
    /// Its port; the same after a restart.
    pub port: u16,
    tls: bool,
    process: Option<Process>,
    dir: tempfile::TempDir,
}

impl Mosquitto {
    /// Starts a broker that accepts everybody. `None`, with a message, if mosquitto is not installed.
    pub fn start() -> Option<Mosquitto> {
        Mosquitto::with(&Rules::default())
    }

    /// Starts a broker with these rules.
    pub fn with(rules: &Rules) -> Option<Mosquitto> {
        if !Path::new(SERVER).exists() {
            eprintln!("skipped: there is no {SERVER}; install the package mosquitto");
            return None;
        }
        let held = Ports::hold(1);
        let port = held.numbers()[0];
        held.release();
        let mut server = Mosquitto {
            port,
            tls: rules.tls.is_some(),
            process: None,
            dir: short_dir(),
        };
        server.configure(rules);
        server.restart();
        Some(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn configure(&self, rules: &Rules) {
        // Tests compare everything that is queued for a client. Without a limit (0), version 2.0.11 disconnects clients
        // whose publication is not allowed.
        let mut text = String::from(
            "user root\npersistence false\nlog_dest stderr\nmax_queued_messages 1000000\nset_tcp_nodelay true\n",
        );
        let anonymous = rules.users.is_empty() && !rules.certificates;
        let mut line = |words: &str, path: &Path| {
            writeln!(text, "{words}{}", path.display()).expect("text grows");
        };
        if !rules.users.is_empty() {
            let file = self.path("passwords");
            std::fs::write(&file, "").expect("a file can be written");
            for (name, password) in &rules.users {
                let made = Command::new(PASSWORDS)
                    .arg("-b")
                    .arg(&file)
                    .args([name, password])
                    .output()
                    .expect("mosquitto_passwd is there");
                assert!(made.status.success(), "{made:?}");
            }
            line("password_file ", &file);
        }
        if !rules.acl.is_empty() {
            let file = self.path("acl");
            std::fs::write(&file, &rules.acl).expect("a file can be written");
            line("acl_file ", &file);
        }
        let listener = format!("listener {} 127.0.0.1", self.port);
        line(&listener, Path::new(""));
        line(&format!("allow_anonymous {anonymous}"), Path::new(""));
        if let Some((ca, certificate, key)) = &rules.tls {
            line("cafile ", ca);
            line("certfile ", certificate);
            line("keyfile ", key);
            if rules.certificates {
                line("require_certificate true", Path::new(""));
                line("use_identity_as_username true", Path::new(""));
            }
        }
        text.push_str(&rules.more);
        std::fs::write(self.path("conf"), text).expect("a file can be written");
    }

    /// Starts it again, after [`Mosquitto::stop`] or [`Mosquitto::kill`]; it has lost its state.
    pub fn restart(&mut self) {
        let mut command = Command::new(SERVER);
        command.arg("-c").arg(self.path("conf"));
        let mut process = Process::start("mosquitto", &mut command, &self.path("log"));
        wait_until("mosquitto listens", || {
            process.must_live();
            listens(self.port)
        });
        self.process = Some(process);
    }

    /// Stops it in order: it sends DISCONNECT to its clients.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::SIGKILL);
        }
    }

    /// Suspends its process, or resumes it: connections stay open, but there are no replies.
    pub fn freeze(&self, frozen: bool) {
        let signal = match frozen {
            true => Signal::SIGSTOP,
            false => Signal::SIGCONT,
        };
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// `127.0.0.1:port`; with TLS `localhost:port`, as in its certificate.
    pub fn address(&self) -> String {
        match self.tls {
            true => format!("localhost:{}", self.port),
            false => format!("127.0.0.1:{}", self.port),
        }
    }

    /// Its log, including that before restarts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Settings of a connection without name and password.
    pub fn settings(&self, client_id: &str) -> MqttSettings {
        settings(&[self.address()], client_id)
    }

    /// A connected client, with confirmed subscriptions.
    pub fn peer(&self, client_id: &str, filters: &[&str]) -> Peer {
        let peer = Peer::open(&self.settings(client_id), filters);
        peer.up();
        peer
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mosquitto's log:\n{}", self.log());
        }
    }
}

/// Settings of a connection to these servers, without name and password.
pub fn settings(servers: &[String], client_id: &str) -> MqttSettings {
    MqttSettings {
        servers: servers.to_vec(),
        client_id: client_id.to_owned(),
        user: None,
        password: None,
        tls: false,
        tls_ca: PathBuf::new(),
        tls_cert: PathBuf::new(),
        tls_key: PathBuf::new(),
        keep_alive: Duration::from_secs(60),
        will: None,
        max_packet: 1 << 20,
        max_waiting: 10_000,
    }
}

/// A publication with QoS 2.
pub fn publication(topic: &str, payload: impl Into<Vec<u8>>) -> Publication {
    Publication {
        topic: topic.to_owned(),
        payload: payload.into(),
        qos: Qos::Two,
        properties: Vec::new(),
    }
}

/// A client.
pub struct Peer {
    /// Its connection.
    pub mqtt: Mqtt,
    heard: Receiver<MqttEvent>,
    /// Received messages that were not returned yet.
    early: RefCell<VecDeque<Incoming>>,
}

impl Peer {
    /// Opens a connection with subscriptions to these filters, which include its own messages.
    pub fn open(settings: &MqttSettings, filters: &[&str]) -> Peer {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter, false)).collect();
        Peer::with_room(settings, &filters, 100_000)
    }

    /// Opens a connection with a queue of `room` places; the flag of a filter is whether its own messages are excluded.
    pub fn with_room(settings: &MqttSettings, filters: &[(&str, bool)], room: usize) -> Peer {
        let (to, heard) = crossbeam_channel::bounded(room);
        let mqtt = Mqtt::open_hearing(settings, filters, to).expect("settings are fine");
        Peer {
            mqtt,
            heard,
            early: RefCell::default(),
        }
    }

    /// The next event; ignores stored messages.
    pub fn next(&self) -> MqttEvent {
        self.heard.recv_timeout(LONG).expect("something is heard")
    }

    fn wait_for_event<T>(&self, what: &str, fits: impl Fn(&MqttEvent) -> Option<T>) -> T {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            let event = self.next();
            if let Some(found) = fits(&event) {
                return found;
            }
            if let MqttEvent::Message(message) = event {
                self.early.borrow_mut().push_back(message);
            }
        }
        panic!("{what}: not within {LONG:?}");
    }

    /// Waits for a connection; returns its server.
    pub fn up(&self) -> String {
        self.wait_for_event("a connection", |event| match event {
            MqttEvent::Up(server) => Some(server.clone()),
            _ => None,
        })
    }

    /// Waits for the loss of the connection; returns the reason.
    pub fn down(&self) -> String {
        self.wait_for_event("no connection", |event| match event {
            MqttEvent::Down(why) => Some(why.clone()),
            _ => None,
        })
    }

    /// Waits until the broker refuses a filter; returns the filter and the reason.
    pub fn denied(&self) -> (String, String) {
        self.wait_for_event("a refusal", |event| match event {
            MqttEvent::Denied(filter, why) => Some((filter.clone(), why.clone())),
            _ => None,
        })
    }

    /// Subscribes to a filter; returns when the broker has confirmed it.
    pub fn subscribe(&self, filter: &str) {
        self.mqtt.subscribe(filter, false);
        self.settle();
    }

    /// Publishes with QoS 2; returns when the broker has confirmed it.
    pub fn publish(&self, topic: &str, payload: impl Into<Vec<u8>>) {
        let sent = self.mqtt.publish(publication(topic, payload));
        assert_eq!(sent, Ok::<(), Unsent>(()));
        self.settle();
    }

    /// Waits until the broker has confirmed everything that was sent.
    pub fn settle(&self) {
        wait_until("the broker has answered", || self.mqtt.settled());
    }

    /// The next message, if one comes within that time.
    pub fn within(&self, limit: Duration) -> Option<Incoming> {
        self.find(limit, |_| true)
    }

    /// The first message that fits, if one comes within that time. Earlier messages are stored.
    pub fn find(&self, limit: Duration, fits: impl Fn(&Incoming) -> bool) -> Option<Incoming> {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(&fits) {
            return early.remove(at);
        }
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left).ok()? {
                MqttEvent::Message(message) if fits(&message) => return Some(message),
                MqttEvent::Message(message) => early.push_back(message),
                _ => {}
            }
        }
    }

    /// The first message that fits.
    ///
    /// # Panics
    /// If none comes within [`LONG`].
    pub fn message(&self, what: &str, fits: impl Fn(&Incoming) -> bool) -> Incoming {
        self.find(LONG, fits)
            .unwrap_or_else(|| panic!("{what}: not within {LONG:?}"))
    }

    /// The first message on that topic.
    pub fn on(&self, topic: &str) -> Incoming {
        self.message(topic, |message| message.topic == topic)
    }

    /// The first message whose payload is JSON that fits.
    pub fn json(
        &self,
        what: &str,
        fits: impl Fn(&str, &serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let parsed = |message: &Incoming| serde_json::from_slice(&message.payload).ok();
        let found = self.message(what, |message| {
            parsed(message).is_some_and(|json| fits(&message.topic, &json))
        });
        parsed(&found).expect("it was JSON")
    }
}
