//! The socket, the jobs and the clock of the minion.

use super::command::Command;
use super::course::{Action, Course};
use super::settings::Settings;
use super::store::Store;
use super::traits::of_grains;
use crate::wire::{Decoder, Dialect, MAX_FRAME, MinionMessage};
use halite_channel::publication::Job;
use halite_channel::session::chance;
use halite_config::MinionConfig;
use halite_crypto::random_uuid;
use halite_ipc::{StampStyle, stamp_now};
use halite_minion::daemon::Start;
use halite_minion::jobs::{Finished, Jobs, Origin};
use halite_minion::setup::chown_dir;
use halite_modules::grains::all_grains;
use halite_sys::daemon::{Report, make_dir};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::service::Service;
use halite_sys::signals::SignalPipe;
use halite_wire::ids::{Jid, JidClock};
use halite_wire::{Value, msgpack};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the system stores the machine's id.
const MACHINE_ID: &str = "/etc/machine-id";
/// Timeout for connecting and for writing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes per read.
const CHUNK: usize = 16 * 1024;
/// Commands that may run or wait; more are refused.
const MAX_COMMANDS: usize = 64;
/// How long functions may take to end when the minion is stopped.
const GRACE: Duration = Duration::from_secs(1);

/// Runs the minion until SIGTERM, or until the master removes it. `register` is the fingerprint of the master's key,
/// as verified by the operator.
///
/// # Errors
/// The reason why it cannot run; the status is the exit status.
pub fn run(
    mut config: MinionConfig,
    register: Option<&str>,
    start: Start,
    report: &mut Report,
) -> Result<(), ExitError> {
    let dialect = match config.sysinspect_dialect.as_str() {
        "seed" => Dialect::Seed,
        "e3" => Dialect::Modern,
        other => {
            let text = format!("sysinspect_dialect is {other:?}; write seed or e3");
            return Err(ExitError::new(1, text));
        }
    };
    // Separate from the jobs of the minion for Salt masters on this host.
    let cachedir = config.sysinspect_cache();
    for (what, dir, mode) in [
        ("pki_dir", &config.pki_dir, 0o700),
        ("pki_dir", &Store::path(&config.pki_dir), 0o700),
        ("cachedir", &config.cachedir, 0o755),
        ("cachedir", &cachedir, 0o700),
    ] {
        make_dir(dir, mode)
            .and_then(|()| chown_dir(dir, &config.user))
            .map_err(|e| ExitError::io(what, dir, &e))?;
    }
    config.cachedir = cachedir;
    if nix::unistd::geteuid().is_root() {
        halite_sys::process::drop_privileges(&config.user)?;
    }
    let store = Store::open(&config.pki_dir)?;
    let id = store.id(&config.sysinspect_id, Path::new(MACHINE_ID))?;
    config.id = id.as_str().to_owned();
    let fingerprint = fingerprint(register.unwrap_or(&config.sysinspect_fingerprint))?;
    let pinned = store.master()?;
    if let Some(pinned) = &pinned
        && !fingerprint.is_empty()
        && pinned.pkcs1_fingerprint() != fingerprint
    {
        let text = format!(
            "the key of another master ({}) is accepted; to register with the master of {fingerprint}, remove {}",
            pinned.pkcs1_fingerprint(),
            store.master_file().display()
        );
        return Err(ExitError::new(42, text));
    }
    let millis = Duration::from_millis;
    let settings = Settings {
        session: random_uuid(),
        dialect,
        fingerprint,
        own_key: store.key(config.keysize as usize)?.public().to_pkcs1_pem(),
        allowed: config.sysinspect_functions.clone(),
        pauses: (
            millis(config.recon_default),
            millis(config.recon_default.saturating_add(config.recon_max)),
        ),
        chance,
        id,
    };
    let signals = SignalPipe::install()?;
    let config = Arc::new(config);
    let grains = Arc::new(all_grains(&config));
    let jobs = Jobs::new(&config, start.log, start.title, grains);
    let pushed = store.traits();
    let mut minion = Daemon {
        course: Course::new(settings, pinned, pushed),
        store,
        config,
        dialect,
        begun: Instant::now(),
        connection: None,
        masters: 0,
        jobs,
        jids: JidClock::default(),
        running: HashMap::new(),
        end: None,
        service: Service::inherited(),
    };
    report.ready();
    minion.service.ready("looking for the master");
    let outcome = minion.serve(&signals);
    minion.stop();
    outcome
}

/// Normalises a fingerprint: removes colons between the bytes, lower case.
fn fingerprint(text: &str) -> Result<String, ExitError> {
    let plain = text.trim().replace(':', "").to_ascii_lowercase();
    let digits = plain.bytes().all(|b| b.is_ascii_hexdigit());
    if plain.is_empty() || (plain.len() == 64 && digits) {
        return Ok(plain);
    }
    let text = format!(
        "{text:?} is not a fingerprint: it must be 64 hexadecimal digits, the SHA-256 of the master's key as shown to its operator"
    );
    Err(ExitError::new(64, text))
}

struct Connection {
    stream: TcpStream,
    decoder: Decoder,
}

struct Daemon {
    course: Course,
    store: Store,
    config: Arc<MinionConfig>,
    dialect: Dialect,
    begun: Instant,
    connection: Option<Connection>,
    /// Attempts to connect; selects the next of several masters.
    masters: usize,
    jobs: Jobs,
    jids: JidClock,
    running: HashMap<Jid, u64>,
    end: Option<(i32, String)>,
    service: Service,
}

impl Daemon {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn serve(&mut self, signals: &SignalPipe) -> Result<(), ExitError> {
        while !signals.stop.is_set() {
            self.wait(signals)?;
            self.read()?;
            for finished in self.jobs.poll() {
                self.returned(finished)?;
            }
            let now = self.now();
            let actions = self.course.tick(now);
            self.perform(actions)?;
            if signals.take_reload() {
                // The log reopens its file by itself.
                self.service.reloaded();
            }
            debug_report::write_if_asked("halite-sysinspect-minion", || {
                self.jobs
                    .running()
                    .map(|job| format!("  job: {job}\n"))
                    .collect()
            });
            self.service.beat(true);
            match self.end.take() {
                Some((0, text)) => {
                    log::warn!("{text}");
                    return Ok(());
                }
                Some((status, text)) => return Err(ExitError::new(status, text)),
                None => {}
            }
        }
        Ok(())
    }

    fn wait(&self, signals: &SignalPipe) -> Result<(), ExitError> {
        let left = match self.course.deadline() {
            Some(due) => due.saturating_sub(self.now()),
            None => Duration::from_secs(1),
        };
        let left = self.service.at_most(Some(left)).unwrap_or(left);
        let millis = u16::try_from(left.as_millis().saturating_add(1)).unwrap_or(u16::MAX);
        let mut fds: Vec<BorrowedFd> = self.jobs.outputs().collect();
        fds.extend(
            self.connection
                .as_ref()
                .map(|connection| connection.stream.as_fd()),
        );
        signals.wait(&fds, millis)?;
        Ok(())
    }

    /// Reads what is there; reads do not block.
    fn read(&mut self) -> Result<(), ExitError> {
        let mut chunk = [0; CHUNK];
        while let Some(connection) = &mut self.connection {
            match connection.stream.read(&mut chunk) {
                Ok(0) => return self.disconnect("the master has closed the connection"),
                Ok(n) => connection.decoder.push(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return self.disconnect(&format!("the connection is lost: {e}")),
            }
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), ExitError> {
        loop {
            let Some(connection) = &mut self.connection else {
                return Ok(());
            };
            let body = match connection.decoder.next_body() {
                Ok(Some(body)) => body.to_vec(),
                Ok(None) => return Ok(()),
                Err(e) => return self.disconnect(&e.to_string()),
            };
            let now = self.now();
            let actions = self.course.receive(now, &body);
            self.perform(actions)?;
        }
    }

    fn disconnect(&mut self, why: &str) -> Result<(), ExitError> {
        log::info!("{why}");
        self.service.status("not connected to the master");
        self.connection = None;
        let actions = self.course.lost(self.now());
        self.perform(actions)
    }

    fn perform(&mut self, actions: Vec<Action>) -> Result<(), ExitError> {
        for action in actions {
            match action {
                Action::Connect => self.connect()?,
                Action::Send(message) => self.send(&message)?,
                Action::Close => self.connection = None,
                Action::Run(number, command) => self.start(number, command)?,
                Action::Pin(key) => {
                    self.store.pin(&key)?;
                    log::warn!("the master's key {} is accepted", key.pkcs1_fingerprint());
                }
                Action::Forget => self.store.forget()?,
                Action::StoreTraits(traits) => {
                    if let Err(e) = self.store.store_traits(&traits) {
                        log::error!(
                            "pushed traits cannot be stored and will be lost on restart: {e}"
                        );
                    }
                }
                Action::Exit(status, text) => self.end = Some((status, text)),
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<(), ExitError> {
        let masters = &self.config.master;
        let name = masters.get(self.masters % masters.len().max(1));
        let host = name.cloned().unwrap_or_default();
        self.masters += 1;
        match open(&host, self.config.sysinspect_port, &mut self.service) {
            Ok(stream) => {
                self.service.status(&format!("connected to {host}"));
                self.connection = Some(Connection {
                    stream,
                    decoder: Decoder::new(MAX_FRAME),
                });
                let grains = Arc::new(all_grains(&self.config));
                let traits = of_grains(&grains, &self.config.id);
                self.jobs.set_grains(grains);
                self.course.set_traits(traits);
                let actions = self.course.connected(self.now());
                self.perform(actions)
            }
            Err(e) => {
                log::warn!("cannot connect to {host}: {e}");
                self.service.status(&format!("cannot connect to {host}"));
                let actions = self.course.lost(self.now());
                self.perform(actions)
            }
        }
    }

    fn send(&mut self, message: &MinionMessage) -> Result<(), ExitError> {
        let frame = match message.to_frame(self.dialect) {
            Ok(frame) => frame,
            Err(e) => {
                log::error!("{} cannot be sent: {e}", message.kind);
                return Ok(());
            }
        };
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        match write(&mut connection.stream, &frame) {
            Ok(()) => Ok(()),
            Err(e) => self.disconnect(&format!("sending failed: {e}")),
        }
    }

    fn start(&mut self, number: u64, command: Command) -> Result<(), ExitError> {
        if self.running.len() >= MAX_COMMANDS {
            let why = format!("{MAX_COMMANDS} commands are already running on this minion");
            return self.answer(number, &why.into(), 1);
        }
        let jid = self.jids.next();
        log::info!("{} is job {jid}", command.fun);
        self.running.insert(jid.clone(), number);
        let load = halite_wire::map! {
            "fun" => command.fun, "arg" => command.args, "jid" => jid.as_str(), "tgt" => self.config.id.as_str(),
            "tgt_type" => "glob", "ret" => "", "user" => "sysinspect",
        };
        match self.jobs.add(Job { jid, load }, Origin::Master(0)) {
            Some(finished) => self.returned(finished),
            None => Ok(()),
        }
    }

    fn returned(&mut self, finished: Finished) -> Result<(), ExitError> {
        let Some(number) = self.running.remove(&finished.jid) else {
            return Ok(());
        };
        let load = msgpack::decode(&finished.load)
            .ok()
            .and_then(Value::into_map);
        let load = load.unwrap_or_default();
        let value = load.get("return").cloned().unwrap_or_default();
        let failed = load.get("success").and_then(Value::as_bool) == Some(false);
        let retcode = match load.int("retcode") {
            Some(0) | None => i64::from(failed),
            Some(code) => code,
        };
        self.answer(number, &value, retcode)
    }

    fn answer(&mut self, number: u64, value: &Value, retcode: i64) -> Result<(), ExitError> {
        let stamp = stamp_now(StampStyle::Offset);
        let actions = self.course.finished(number, value, retcode, &stamp);
        self.perform(actions)
    }

    fn stop(&mut self) {
        self.service.stopping();
        self.jobs.terminate();
        let until = Instant::now() + GRACE;
        while !self.jobs.all_ended() && Instant::now() < until {
            self.jobs.poll();
            std::thread::sleep(Duration::from_millis(10));
        }
        self.jobs.kill();
    }
}

fn open(host: &str, port: u16, service: &mut Service) -> std::io::Result<TcpStream> {
    // As with the option `master` of halite-minion, the name may have a port.
    let (host, port) = match host.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') => (name, digits.parse().unwrap_or(port)),
        _ => (host.trim_matches(['[', ']']), port),
    };
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        service.beat(true);
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Writes a whole frame; fails if the master reads nothing for [`PATIENCE`].
fn write(stream: &mut TcpStream, frame: &[u8]) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let written = stream.write_all(frame);
    stream.set_nonblocking(true)?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_have_one_form() {
        let plain = "209e2fd14f96c3033927f3e3099731c49efa4249a92b72cc4bd78dcdec776c71";
        assert_eq!(fingerprint(plain).unwrap(), plain);
        assert_eq!(fingerprint(&plain.to_uppercase()).unwrap(), plain);
        let colons: Vec<&str> = (0..32).map(|i| &plain[2 * i..2 * i + 2]).collect();
        assert_eq!(fingerprint(&colons.join(":")).unwrap(), plain);
        assert_eq!(fingerprint("").unwrap(), "");
        assert_eq!(fingerprint("deadbeef").unwrap_err().status, 64);
    }
}
