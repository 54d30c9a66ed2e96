//! The keys that a minion shares with its master, and how it renews them.
//!
//! There is one [`Session`] per process. Threads use the current [`Credentials`]; a thread whose
//! request is refused calls [`Session::renew`], and if several do so at once, only one signs in.

use super::credentials::{Credentials, PublicationKeys};
use super::interrupt::{Stop, Waker, WeakWaker};
use super::keys;
use super::master_search::{Action, Event, MasterOrder, MasterSearch, MasterType, Reason};
use super::requester::{RequestResult, Requester};
use super::signin::{
    Accepted, Exchange, KeptSessions, Known, NextStep, RetryOptions, SeenMasters, SignInConfig,
    Verdict, other_master,
};
use halite_config::MinionConfig;
use halite_crypto::{CipherKind, SessionCipher, fill_random, nonce};
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::time::unix_now_i64;
use halite_transport::sockets::{Context, tcp_url};
use halite_wire::Map;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wait after a connection that was lost during a sign-in.
const LOST_PAUSE: Duration = Duration::from_secs(1);
/// How often a stop is looked for while a name is resolved.
const LOOK: Duration = Duration::from_millis(100);

/// One address from the option `master`.
#[derive(Clone, Debug, PartialEq)]
struct Address {
    /// As in the option.
    name: String,
    host: String,
    port: u16,
}

/// State for signing in, used by one thread at a time.
struct Signing {
    requester: Requester,
    roster: MasterOrder,
}

/// The session of a minion with its master.
pub struct Session {
    config: Arc<MinionConfig>,
    terms: SignInConfig,
    master_file: PathBuf,
    masters: Vec<Address>,
    first: usize,
    context: Context,
    once: bool,
    present: Mutex<Option<Arc<Credentials>>>,
    signing: Mutex<Signing>,
    unanswered: Mutex<LogLimiter>,
    /// Dead ones are removed when the next one is added.
    listeners: Mutex<Vec<WeakWaker>>,
}

impl Session {
    /// Reads the keys; does not connect yet. With `once`, whatever needs action by the operator is an
    /// error at once instead of being waited for.
    ///
    /// # Errors
    /// Keys or options cannot be used.
    pub fn new(
        config: Arc<MinionConfig>,
        grains: &Map,
        context: &Context,
        once: bool,
    ) -> Result<Session, ExitError> {
        let file = keys::master_file(&config.pki_dir);
        Session::pinned_in(file, config, grains, context, once)
    }

    /// As [`Session::new`], with another file for the master's key: a syndic shares its `pki_dir`
    /// with a minion that may have another master.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn pinned_in(
        master_file: PathBuf,
        config: Arc<MinionConfig>,
        grains: &Map,
        context: &Context,
        once: bool,
    ) -> Result<Session, ExitError> {
        let masters = config
            .master
            .iter()
            .map(|m| address(m, config.master_port))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(first) = masters.first() else {
            return Err(ExitError::new(1, "the option `master` names no master"));
        };
        let requester = Requester::new(&config, &tcp_url(&first.host, first.port));
        keys::pinned(&master_file)?;
        let kind = match config.master_type.as_str() {
            "distributed" => MasterType::Distributed,
            // A command uses the first of a list that replies, whatever the daemon does with the list.
            _ if masters.len() > 1 => MasterType::Failover,
            _ => MasterType::Single,
        };
        let random = config.random_master || config.master_shuffle;
        let roster = MasterOrder::new(
            kind,
            masters.len(),
            &config.id,
            random,
            config.master_failback,
        );
        Ok(Session {
            master_file,
            terms: keys::sign_in_config(&config, grains)?,
            masters,
            first: roster.first(),
            context: context.clone(),
            once,
            present: Mutex::new(None),
            signing: Mutex::new(Signing { requester, roster }),
            unanswered: Mutex::default(),
            listeners: Mutex::new(Vec::new()),
            config,
        })
    }

    /// The current credentials, if there has been a sign-in.
    pub fn present(&self) -> Option<Arc<Credentials>> {
        lock(&self.present).clone()
    }

    /// Replaces the publication keys of `present`, unless they have changed meanwhile; returns whether there are newer ones
    /// now. Wakes nobody: pending requests use the same session key as before.
    pub fn adopt(&self, present: &Arc<Credentials>, keys: PublicationKeys) -> bool {
        let mut held = lock(&self.present);
        if !held.as_ref().is_some_and(|held| Arc::ptr_eq(held, present)) {
            return true;
        }
        if present.aes == keys.aes && present.next == keys.next {
            return false;
        }
        *held = Some(Arc::new(Credentials {
            generation: present.generation + 1,
            aes: keys.aes,
            next: keys.next,
            ..Credentials::clone(present)
        }));
        true
    }

    /// Uses credentials from a sign-in of another process.
    pub fn resume(&self, credentials: Credentials) {
        *lock(&self.present) = Some(Arc::new(credentials));
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<MinionConfig> {
        &self.config
    }

    /// The sign-in configuration.
    pub fn sign_in_config(&self) -> &SignInConfig {
        &self.terms
    }

    /// The ZeroMQ context of the process.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Wakes `wake` whenever a sign-in changes the keys.
    pub fn wake_on_new_keys(&self, wake: &Waker) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(WeakWaker::is_alive);
        listeners.push(wake.downgrade());
    }

    /// Signs in, unless another thread has done so since generation `seen` (0: never). `Ok(None)` if the process
    /// must stop.
    ///
    /// # Errors
    /// The master refuses permanently.
    pub fn renew(&self, seen: u64, stop: &Stop) -> Result<Option<Arc<Credentials>>, ExitError> {
        let reason = match self.present() {
            None => Reason::First,
            Some(_) => Reason::Again,
        };
        self.search(seen, reason, stop)
    }

    /// As [`Session::renew`]; `reason` decides which master is tried first.
    ///
    /// # Errors
    /// As [`Session::renew`].
    pub fn search(
        &self,
        seen: u64,
        reason: Reason,
        stop: &Stop,
    ) -> Result<Option<Arc<Credentials>>, ExitError> {
        let mut signing = lock(&self.signing);
        let before = self.present();
        if let Some(newer) = before.as_ref().filter(|c| c.generation > seen) {
            return Ok(Some(newer.clone()));
        }
        let Some(fresh) = self.sign_in(&mut signing, before.as_deref(), reason, stop)? else {
            return Ok(None);
        };
        let mut present = lock(&self.present);
        let fresh = Arc::new(fresh.following(before.as_deref(), present.as_deref()));
        let changed = before.is_none_or(|b| b.aes != fresh.aes || b.session != fresh.session);
        *present = Some(fresh.clone());
        drop(present);
        if changed {
            lock(&self.listeners).retain(WeakWaker::wake);
        }
        Ok(Some(fresh))
    }

    fn sign_in(
        &self,
        signing: &mut Signing,
        before: Option<&Credentials>,
        reason: Reason,
        stop: &Stop,
    ) -> Result<Option<Credentials>, ExitError> {
        let mut policy = RetryOptions::of(&self.config);
        policy.once = self.once;
        let present = before.map_or(0, |b| self.index_of(&b.request_url));
        let order = signing.roster.order(reason, present, shuffle);
        let list = signing.roster.is_list();
        if list && !self.once {
            policy.tries = 1;
        }
        let requester = &mut signing.requester;
        let mut search = MasterSearch::new(policy, &self.terms.id, order, list).scattered(reason);
        let mut act = search.next(Event::Begin);
        let mut admitted = false;
        loop {
            let event = match act {
                Action::Resolve(at) => match self.resolve(at, stop) {
                    Some(event) => event,
                    None => return Ok(None),
                },
                Action::Ask(at, timeout) => match self.ask(requester, at, timeout, stop)? {
                    Some(verdict) => {
                        admitted |= verdict == Verdict::Pending;
                        Event::Answer(verdict)
                    }
                    None => return Ok(None),
                },
                Action::Wait(wait) => match pause(requester, jittered(wait), stop) {
                    Some(event) => event,
                    None => return Ok(None),
                },
                Action::Scatter(bound) => match pause(requester, random_share(bound), stop) {
                    Some(event) => event,
                    None => return Ok(None),
                },
                Action::Fail(e) => return Err(e),
                Action::Done(at, accepted) => {
                    requester.close();
                    let master = &self.masters[at];
                    let port = self.publish_port(accepted.publish_port);
                    let url = tcp_url(&master.host, master.port);
                    match accepted.cipher {
                        CipherKind::Gcm => log::info!("signed in at {url}, with AES-256-GCM"),
                        CipherKind::Salt => log::info!("signed in at {url}"),
                    }
                    return Ok(Some(Credentials {
                        generation: 1,
                        signed_in: 1,
                        admitted,
                        cipher: SessionCipher::new(accepted.cipher, &accepted.session),
                        aes: accepted.aes,
                        next: None,
                        rekeys: accepted.rekeys,
                        session: accepted.session,
                        master: accepted.master,
                        publish_url: tcp_url(&master.host, port),
                        request_url: url,
                        name: master.name.clone(),
                    }));
                }
            };
            act = search.next(event);
        }
    }

    /// Sends a sign-in request to one master; `None` if the process must stop.
    fn ask(
        &self,
        requester: &mut Requester,
        at: usize,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Option<Verdict>, ExitError> {
        let master = &self.masters[at];
        let url = tcp_url(&master.host, master.port);
        requester.set_url(&url);
        let pinned = keys::pinned(&self.master_file)?;
        let seen = match &self.terms.noise {
            Some(_) => keys::seen_masters(&self.master_file)?,
            None => SeenMasters::default(),
        };
        // One that has just failed must not be tried again.
        let kept = match self.present() {
            None => keys::kept_sessions(&self.master_file),
            Some(_) => KeptSessions::default(),
        };
        let known = Known {
            pinned: pinned.as_ref(),
            seen: &seen,
            sessions: &kept,
        };
        let (mut exchange, mut body) =
            Exchange::begin(&self.terms, known, &nonce(), unix_now_i64());
        loop {
            let reply = match requester.request(&body, timeout, stop, None)? {
                RequestResult::Bytes(bytes) => bytes,
                // A master that hangs up at once must not be asked again at once.
                RequestResult::Lost if !stop.sleep(LOST_PAUSE) => return Ok(None),
                RequestResult::Silence | RequestResult::Lost | RequestResult::Interrupted => {
                    // Warn at once, but then rarely: a fleet that waits for days must not fill its disks.
                    let hint = match self.config.tls() {
                        Some(_) => " (does that port have TLS, as `ssl` here says?)",
                        None => "",
                    };
                    match lock(&self.unanswered).tick(Instant::now()) {
                        Some(times) => log::warn!(
                            "no reply from the master at {url}{hint} (times: {times}); trying again"
                        ),
                        None => log::info!("no reply from the master at {url}"),
                    }
                    return Ok(Some(Verdict::Silence));
                }
                RequestResult::Stopped => return Ok(None),
            };
            match exchange.step(&self.terms, known, &reply) {
                NextStep::Send(next, message) => (exchange, body) = (next, message),
                NextStep::Done(Verdict::Accepted(accepted)) => {
                    return self.keep_key(accepted, pinned.is_some()).map(Some);
                }
                NextStep::Done(verdict) => return Ok(Some(verdict)),
            }
        }
    }

    /// Pins the keys of a master at first contact, or if its new key is signed. If the connection to another
    /// master was faster, the key pinned there is valid, unless the new one is signed.
    fn keep_key(&self, mut accepted: Box<Accepted>, instead: bool) -> Result<Verdict, ExitError> {
        if accepted.pin && !keys::pin(&self.master_file, &accepted.master, instead)? {
            let kept = keys::pinned(&self.master_file)?;
            let other = kept.filter(|kept| kept.pem != accepted.master.pem);
            if let Some(kept) = other.as_ref().filter(|_| !self.terms.verify_master_sign) {
                let why = other_master(&self.terms, kept, &accepted.master);
                return Ok(Verdict::Untrusted(why));
            }
            let same = other.is_none();
            accepted.pin = !same;
            if accepted.pin {
                keys::pin(&self.master_file, &accepted.master, true)?;
            }
        }
        keys::keep_seen(&self.master_file, &accepted);
        Ok(Verdict::Accepted(accepted))
    }

    /// Resolves the name each time, since addresses change. `None` if the process must stop.
    fn resolve(&self, at: usize, stop: &Stop) -> Option<Event> {
        let master = &self.masters[at];
        if master.host.parse::<IpAddr>().is_ok() {
            return Some(Event::Resolved);
        }
        let (host, port) = (master.host.clone(), master.port);
        let (done, found) = mpsc::channel();
        // A name server that is silent keeps it waiting for half a minute, whatever signals come.
        std::thread::spawn(move || {
            let _ = done.send((host.as_str(), port).to_socket_addrs().map(drop));
        });
        let found = loop {
            match found.recv_timeout(LOOK) {
                Ok(found) => break found,
                Err(RecvTimeoutError::Timeout) if stop.is_set() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Err(io::ErrorKind::Other.into()),
            }
        };
        Some(match found {
            Ok(()) => Event::Resolved,
            Err(e) => {
                log::debug!("{}: {e}", master.host);
                Event::Unresolvable(master.host.clone())
            }
        })
    }

    /// The preferred master, as named in the option.
    pub fn preferred(&self) -> Option<String> {
        self.masters.get(self.first).map(|m| m.name.clone())
    }

    /// Its `tcp://` address for requests.
    pub fn preferred_url(&self) -> Option<String> {
        let master = self.masters.get(self.first)?;
        Some(tcp_url(&master.host, master.port))
    }

    fn index_of(&self, url: &str) -> usize {
        self.masters
            .iter()
            .position(|m| tcp_url(&m.host, m.port) == url)
            .unwrap_or(0)
    }

    /// The port that the master reports, unless the minion is configured with another one than the default; stock's is 4506.
    fn publish_port(&self, said: u16) -> u16 {
        match self.config.publish_port {
            4505 | 4506 => said,
            own => own,
        }
    }
}

/// Closes the connection and waits; `None` if the process must stop.
fn pause(requester: &mut Requester, wait: Duration, stop: &Stop) -> Option<Event> {
    requester.close();
    stop.sleep(wait).then_some(Event::Waited)
}

/// `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address (`salt/minion.py`,
/// `salt/utils/network.py parse_host_port`).
fn address(text: &str, default: u16) -> Result<Address, ExitError> {
    let bad = || {
        ExitError::new(
            1,
            format!("the option `master` has {text:?}, which is not a host or host:port"),
        )
    };
    let text = text.trim();
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, tail) = rest.split_once(']').ok_or_else(bad)?;
        (host, tail.strip_prefix(':'))
    } else {
        match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        }
    };
    let port = match port {
        None => default,
        Some(port) => port.parse().map_err(|_| bad())?,
    };
    if host.is_empty() || port == 0 || host.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err(bad());
    }
    Ok(Address {
        name: text.to_owned(),
        host: host.to_owned(),
        port,
    })
}

/// Shuffles a slice.
fn shuffle(order: &mut [usize]) {
    use rand::seq::SliceRandom;
    order.shuffle(&mut rand::thread_rng());
}

/// Lengthens a wait by up to a quarter, so that a fleet does not retry in step.
pub fn jittered(wait: Duration) -> Duration {
    wait + wait.mul_f64(chance() / 4.0)
}

/// A random fraction of a time, so that a fleet is spread over all of it.
pub fn random_share(bound: Duration) -> Duration {
    bound.mul_f64(chance())
}

/// A random number in [0, 1).
pub fn chance() -> f64 {
    let mut bytes = [0u8; 4];
    fill_random(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

/// Locks a mutex, even if a thread that held it has panicked: the values are still consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_masters() {
        let got = |text: &str| address(text, 4506).map(|a| (a.host, a.port)).ok();
        let want = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(got("salt"), want("salt", 4506));
        assert_eq!(got(" salt:4999 "), want("salt", 4999));
        assert_eq!(got("::1"), want("::1", 4506));
        assert_eq!(got("[::1]"), want("::1", 4506));
        assert_eq!(got("[::1]:5"), want("::1", 5));
        for bad in ["", "a b", "h:x", "h:0", "[::1", "h:70000", "a/b"] {
            assert_eq!(got(bad), None, "{bad}");
        }
    }

    #[test]
    fn waits_stretch_by_a_quarter_at_most() {
        let wait = Duration::from_secs(8);
        for _ in 0..100 {
            let got = jittered(wait);
            assert!(got >= wait && got <= Duration::from_secs(10), "{got:?}");
        }
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
