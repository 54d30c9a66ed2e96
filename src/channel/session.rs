//! The keys a minion shares with its master, and how it gets new ones.
//!
//! One [`Session`] per process. Threads take the present [`Credentials`]; whoever finds
//! them refused calls [`Session::renew`], and however many do so at once, one signs in.

use super::MinionError;
use super::interrupt::{Stop, Waker, WeakWaker};
use super::keys;
use super::master_search::{Action, Course, Event, Kind, MasterOrder, Reason};
use super::requester::{Answer, Requester};
use super::signin::{MasterKey, Policy, Request, SignInConfig, Verdict, verify};
use halite_config::MinionConfig;
use halite_crypto::{Crypticle, KeyString, clean_key, fill_random, nonce};
use halite_sys::log_limiter::LogLimiter;
use halite_transport::sockets::{Context, tcp_url};
use halite_wire::{Map, Value};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What a sign-in gave, and what was fetched under it since.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Counts sign-ins and new keys of publications, from 1.
    pub generation: u64,
    /// The generation that the sign-in had.
    pub signed_in: u64,
    /// Whether the key had to be accepted first: the master knows no grains of this minion then.
    pub admitted: bool,
    /// Key of publications.
    pub aes: KeyString,
    /// The one that will follow it, if the master offers it already.
    pub next: Option<KeyString>,
    /// Whether the master gives new keys of publications without a sign-in.
    pub rekeys: bool,
    /// Key of requests.
    pub session: KeyString,
    /// The same, ready for use.
    pub crypticle: Crypticle,
    /// The master's key.
    pub master: MasterKey,
    /// `tcp://` address of publications.
    pub publish_url: String,
    /// `tcp://` address of requests.
    pub request_url: String,
    /// The master as the option `master` names it.
    pub name: String,
}

/// Keys of publications.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicationKeys {
    /// The one in force.
    pub aes: KeyString,
    /// The one that will follow it.
    pub next: Option<KeyString>,
}

impl Credentials {
    /// The key of publications and the one that will follow it.
    pub fn keys(&self) -> impl Iterator<Item = &KeyString> {
        std::iter::once(&self.aes).chain(&self.next)
    }

    /// Keys that another process of this minion got, as [`export`](super::link::export) packs them.
    pub fn unpack(packed: &Map) -> Option<Credentials> {
        let key = |name| KeyString::from_text(packed.str(name)?).ok();
        let session = key("session")?;
        Some(Credentials {
            generation: 1,
            signed_in: 1,
            admitted: false,
            aes: key("aes")?,
            next: None,
            rekeys: false,
            crypticle: Crypticle::new(&session),
            session,
            master: MasterKey::parse(packed.str("master")?)?,
            publish_url: packed.str("publish_url")?.to_owned(),
            request_url: packed.str("request_url")?.to_owned(),
            name: packed.str("name").unwrap_or_default().to_owned(),
        })
    }
}

/// One address out of the option `master`.
#[derive(Clone, Debug, PartialEq)]
struct Address {
    /// As the option has it.
    name: String,
    host: String,
    port: u16,
}

/// What one thread at a time uses to sign in.
struct Signing {
    requester: Requester,
    roster: MasterOrder,
}

/// The minion's standing with its master.
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
    /// Those that are gone are left out when the next one comes.
    listeners: Mutex<Vec<WeakWaker>>,
}

impl Session {
    /// Reads the keys; nothing is connected yet. With `once`, what an operator would have to
    /// change is an error at once instead of being waited for.
    ///
    /// # Errors
    /// Keys or options that cannot be used.
    pub fn new(
        config: Arc<MinionConfig>,
        grains: &Map,
        context: &Context,
        once: bool,
    ) -> Result<Session, MinionError> {
        let file = keys::master_file(&config.pki_dir);
        Session::pinned_in(file, config, grains, context, once)
    }

    /// As [`Session::new`], with another file for the master's key: a syndic shares its directory of keys
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
    ) -> Result<Session, MinionError> {
        let masters = config
            .master
            .iter()
            .map(|m| address(m, config.master_port))
            .collect::<Result<Vec<_>, _>>()?;
        let Some(first) = masters.first() else {
            return Err(MinionError::new(1, "the option `master` names no master"));
        };
        let requester = Requester::new(context, &config, &tcp_url(&first.host, first.port));
        keys::pinned(&master_file)?;
        let kind = match config.master_type.as_str() {
            "distributed" => Kind::Distributed,
            // A command asks the first of a list that answers, whatever the daemon does with the list.
            _ if masters.len() > 1 => Kind::Failover,
            _ => Kind::Single,
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
            terms: terms(&config, grains)?,
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

    /// The present keys, if there has been a sign-in.
    pub fn present(&self) -> Option<Arc<Credentials>> {
        lock(&self.present).clone()
    }

    /// Goes on with other keys of publications than those of `present`, unless others came meanwhile; whether there are
    /// newer ones now. Nobody is woken: requests under way have the same session key as before.
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

    /// Goes on with keys from a sign-in of another process.
    pub fn resume(&self, credentials: Credentials) {
        *lock(&self.present) = Some(Arc::new(credentials));
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<MinionConfig> {
        &self.config
    }

    /// What we say when we sign in.
    pub fn terms(&self) -> &SignInConfig {
        &self.terms
    }

    /// The ZeroMQ context of the process.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Wakes `wake` when a sign-in gave other keys than before.
    pub fn announce_to(&self, wake: &Waker) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(WeakWaker::is_there);
        listeners.push(wake.distant());
    }

    /// Signs in, unless somebody has done so since `seen` (0: never). `Ok(None)` if the process
    /// is to end.
    ///
    /// # Errors
    /// The master refuses for good.
    pub fn renew(&self, seen: u64, stop: &Stop) -> Result<Option<Arc<Credentials>>, MinionError> {
        let reason = match self.present() {
            None => Reason::First,
            Some(_) => Reason::Again,
        };
        self.search(seen, reason, stop)
    }

    /// As [`Session::renew`], beginning with the master that `reason` says.
    ///
    /// # Errors
    /// As [`Session::renew`].
    pub fn search(
        &self,
        seen: u64,
        reason: Reason,
        stop: &Stop,
    ) -> Result<Option<Arc<Credentials>>, MinionError> {
        let mut signing = lock(&self.signing);
        let before = self.present();
        if let Some(newer) = before.as_ref().filter(|c| c.generation > seen) {
            return Ok(Some(newer.clone()));
        }
        let Some(fresh) = self.sign_in(&mut signing, before.as_deref(), reason, stop)? else {
            return Ok(None);
        };
        let fresh = Arc::new(fresh);
        let changed = before.is_none_or(|b| b.aes != fresh.aes || b.session != fresh.session);
        *lock(&self.present) = Some(fresh.clone());
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
    ) -> Result<Option<Credentials>, MinionError> {
        let mut policy = Policy::of(&self.config);
        policy.once = self.once;
        let present = before.map_or(0, |b| self.index_of(&b.request_url));
        let order = signing.roster.order(reason, present, shuffle);
        let list = signing.roster.is_list();
        if list && !self.once {
            policy.tries = 1;
        }
        let requester = &mut signing.requester;
        let mut course = Course::new(policy, &self.terms.id, order, list).scattered(reason);
        let mut act = course.next(Event::Begin);
        let mut admitted = false;
        loop {
            let event = match act {
                Action::Resolve(at) => self.resolve(at),
                Action::Ask(at, timeout) => match self.ask(requester, at, timeout, stop)? {
                    Some(verdict) => {
                        admitted |= verdict == Verdict::Pending;
                        Event::Answer(verdict)
                    }
                    None => return Ok(None),
                },
                Action::Wait(wait) => match rest(requester, jittered(wait), stop) {
                    Some(event) => event,
                    None => return Ok(None),
                },
                Action::Scatter(bound) => match rest(requester, share(bound), stop) {
                    Some(event) => event,
                    None => return Ok(None),
                },
                Action::Fail(failure) => return Err(failure.into()),
                Action::Done(at, accepted) => {
                    requester.close();
                    let master = &self.masters[at];
                    let port = self.publish_port(accepted.publish_port);
                    let url = tcp_url(&master.host, master.port);
                    log::info!("signed in at {url}");
                    let generation = before.map_or(0, |b| b.generation) + 1;
                    return Ok(Some(Credentials {
                        generation,
                        signed_in: generation,
                        admitted,
                        crypticle: Crypticle::new(&accepted.session),
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
            act = course.next(event);
        }
    }

    /// Asks one master; `None` if the process is to end.
    fn ask(
        &self,
        requester: &mut Requester,
        at: usize,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Option<Verdict>, MinionError> {
        let master = &self.masters[at];
        let url = tcp_url(&master.host, master.port);
        requester.turn_to(&url);
        let pinned = keys::pinned(&self.master_file)?;
        let request = Request::new(&self.terms, pinned.as_ref(), &nonce());
        Ok(Some(
            match requester.ask(&request.body, timeout, stop, None)? {
                Answer::Bytes(bytes) => {
                    let verdict = verify(&self.terms, pinned.as_ref(), &request, &bytes);
                    self.keep_key(verdict, pinned.is_some(), |pinned| {
                        verify(&self.terms, pinned, &request, &bytes)
                    })?
                }
                Answer::Silence | Answer::Interrupted => {
                    // Whoever looks is to see it at once; a fleet that waits for days is not to fill its disks with it.
                    match lock(&self.unanswered).tick(Instant::now()) {
                        Some(times) => log::warn!(
                            "no answer from the master at {url} (times: {times}); trying again"
                        ),
                        None => log::info!("no answer from the master at {url}"),
                    }
                    Verdict::Silence
                }
                Answer::Stopped => return Ok(None),
            },
        ))
    }

    /// Keeps the key of a master that is met for the first time, or whose new key is signed. If another
    /// line to another master was faster, its key is the one that counts, and the answer is weighed `again`.
    fn keep_key(
        &self,
        verdict: Verdict,
        instead: bool,
        again: impl FnOnce(Option<&MasterKey>) -> Verdict,
    ) -> Result<Verdict, MinionError> {
        let Verdict::Accepted(accepted) = &verdict else {
            return Ok(verdict);
        };
        if !accepted.pin || keys::pin(&self.master_file, &accepted.master, instead)? {
            return Ok(verdict);
        }
        let kept = keys::pinned(&self.master_file)?;
        match again(kept.as_ref()) {
            // A signed key counts beside the one that is kept.
            Verdict::Accepted(accepted) if accepted.pin => {
                keys::pin(&self.master_file, &accepted.master, true)?;
                Ok(Verdict::Accepted(accepted))
            }
            verdict => Ok(verdict),
        }
    }

    /// Asks the resolver anew each time: names move.
    fn resolve(&self, at: usize) -> Event {
        let master = &self.masters[at];
        match (master.host.as_str(), master.port).to_socket_addrs() {
            Ok(_) => Event::Resolved,
            Err(e) => {
                log::debug!("{}: {e}", master.host);
                Event::Unresolvable(master.host.clone())
            }
        }
    }

    /// The master that is preferred to all others, as the option names it.
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

    /// The master's word counts, unless the minion's configuration names another port than the default.
    fn publish_port(&self, said: u16) -> u16 {
        match self.config.publish_port {
            4505 => said,
            own => own,
        }
    }
}

/// Waits, without a connection meanwhile; `None` if the process is to end.
fn rest(requester: &mut Requester, wait: Duration, stop: &Stop) -> Option<Event> {
    requester.close();
    stop.sleep(wait).then_some(Event::Waited)
}

fn terms(config: &MinionConfig, grains: &Map) -> Result<SignInConfig, MinionError> {
    let key = keys::own_key(config)?;
    let bad = |what: &str, e: &dyn std::fmt::Display| MinionError::new(1, format!("{what}: {e}"));
    let autosign = (!config.autosign_grains.is_empty()).then(|| {
        config
            .autosign_grains
            .iter()
            .map(|name| {
                (
                    name.as_str(),
                    grains.get(name).cloned().unwrap_or(Value::Nil),
                )
            })
            .collect()
    });
    Ok(SignInConfig {
        id: config.id.clone(),
        public: clean_key(&key.public().to_pem()),
        key,
        encryption: config
            .encryption_algorithm
            .parse()
            .map_err(|e| bad("encryption_algorithm", &e))?,
        signing: config
            .signing_algorithm
            .parse()
            .map_err(|e| bad("signing_algorithm", &e))?,
        autosign_grains: autosign,
        verify_master_sign: config.verify_master_pubkey_sign,
        always_verify: config.always_verify_signature,
        signer: match config.verify_master_pubkey_sign {
            true => keys::signer(config)?,
            false => None,
        },
        master_finger: config.master_finger.clone(),
        hash: config.hash_type.parse().map_err(|e| bad("hash_type", &e))?,
        token: KeyString::generate(),
        tok: OnceLock::new(),
    })
}

/// `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address (`salt/minion.py`,
/// `salt/utils/network.py parse_host_port`).
fn address(text: &str, default: u16) -> Result<Address, MinionError> {
    let bad = || {
        MinionError::new(
            1,
            format!("the option `master` has {text:?}, which is no host or host:port"),
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

/// An order by chance.
fn shuffle(order: &mut [usize]) {
    use rand::seq::SliceRandom;
    order.shuffle(&mut rand::thread_rng());
}

/// A wait stretched by up to a quarter, so that a fleet does not ask in step.
pub fn jittered(wait: Duration) -> Duration {
    wait + wait.mul_f64(chance() / 4.0)
}

/// A random share of a time, so that a fleet is spread over all of it.
pub fn share(bound: Duration) -> Duration {
    bound.mul_f64(chance())
}

/// A random number in [0, 1).
pub fn chance() -> f64 {
    let mut bytes = [0u8; 4];
    fill_random(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

/// A thread that panicked while it held the lock has left whole values behind.
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
