//! State of a worker between requests.

use super::batch::Batch;
use super::pubkey_signature::PubkeySignature;
use crate::access::Access;
use crate::events::Bus;
use crate::functions::{Call, FunctionHooks};
use crate::score;
use halite_config::{Acknowledge, MasterConfig, Ports};
use halite_crypto::noise::{Signer, StaticKey, fingerprint, statement};
use halite_crypto::{CipherKind, IdentityKey, IdentityPublic, KeyString, SessionCipher, Signing};
use halite_render::pillar::PillarCompiler;
use halite_store::Stores;
use halite_store::files::FileServer;
use halite_store::keys::{KeyState, Version};
use halite_store::tokens::TokenDigest;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::scoreboard::Scoreboard;
use halite_sys::shared::SharedSecret;
use halite_sys::slots::Slot;
use halite_sys::time::unix_now;
use halite_transport::sockets::{self, Push, PushOptions};
use halite_wire::ids::{Jid, JidClock, MinionId};
use halite_wire::{Map, Transport, Value};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Most cached peers; when full, the cache is cleared.
const PEERS_HELD: usize = 50_000;

/// How long it is remembered whether this master is connected to its cluster.
const STANDING: Duration = Duration::from_millis(250);

/// How answers to returns wait for the cluster.
struct WaitingAnswers {
    acknowledge: Acknowledge,
    /// Whether this master was connected to it, and when that was asked.
    standing: Option<(bool, Instant)>,
}

/// Stores, keys and sockets of one worker.
pub(crate) struct Context {
    pub config: Arc<MasterConfig>,
    pub access: Access,
    pub stores: Stores,
    pub files: FileServer,
    pub master: IdentityKey,
    /// The master's public key in clean form, for sign-in replies.
    pub master_pub: String,
    /// `pub_sig` of sign-in replies, if `master_sign_pubkey` is on.
    pub signing: Option<PubkeySignature>,
    /// The static key for the handshake of halite's minions, with the master's signature.
    pub noise: CertifiedKey,
    pub bus: Bus,
    /// Returns and events that are not stored and fired yet.
    pub batch: Batch,
    pub publish: Push,
    /// To the role that tells the other masters of a cluster about jobs.
    pub cluster: Option<Push>,
    /// In a cluster: whether answers to returns wait for it.
    waiting: Option<WaitingAnswers>,
    /// In a cluster: the counters of all roles.
    board: Option<Scoreboard>,
    pub jids: JidClock,
    /// Functions of a higher layer.
    pub lent: FunctionHooks,
    /// Runners started by this worker.
    pub runners: Runners,
    /// All transports.
    pub ports: Vec<Ports>,
    /// Whether jobs may go to each of their minions alone.
    pub publishes_privately: bool,
    /// Number of the port that the present request came in by.
    pub port: usize,
    shared: SharedSecret,
    aes: Option<AesKey>,
    next_aes: Option<AesKey>,
    peers: HashMap<MinionId, Peer>,
    unknown: HashMap<String, u64>,
    pillar: Option<Rc<PillarCompiler>>,
    /// Counters of this worker.
    pub stats: Stats,
    /// Sign-ins that this master's key is not fit for.
    pub unfit: LogLimiter,
}

/// Counters of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub requests: u64,
    pub sign_ins: u64,
    pub published: u64,
    pub returns: u64,
    pub events: u64,
    pub pillars: u64,
    pub unknown: u64,
    /// Jobs that the publisher did not accept, or that were too large.
    pub unpublished: u64,
    /// Time spent handling requests.
    pub busy: std::time::Duration,
}

impl Stats {
    pub fn to_map(self) -> halite_wire::Map {
        halite_wire::map! {
            "requests" => self.requests, "sign_ins" => self.sign_ins, "published" => self.published,
            "returns" => self.returns, "events" => self.events, "pillars" => self.pillars,
            "unknown" => self.unknown, "unpublished" => self.unpublished, "busy" => self.busy.as_secs_f64(),
        }
    }
}

/// The AES key of publications with the signature of its digest, which is computed once per key.
#[derive(Clone)]
pub(crate) struct AesKey {
    generation: u64,
    /// The key text.
    pub text: KeyString,
    /// The master's signature of the hex SHA-256 of the text.
    pub digest_signature: Vec<u8>,
}

/// A static key and the master's signature of it.
pub(crate) struct CertifiedKey {
    pub key: StaticKey,
    pub signature: Vec<u8>,
    /// Fingerprint of the master's key.
    pub master: String,
}

impl CertifiedKey {
    /// The algorithm of the signature.
    pub const SIGNING: Signing = Signing::Pkcs1v15Sha224;

    fn load(config: &MasterConfig, master: &IdentityKey) -> Result<CertifiedKey, ExitError> {
        let key = crate::noise_key(config)?;
        let of = fingerprint(&master.public().to_pem());
        let statement = statement(Signer::Master, key.public(), &of);
        Ok(CertifiedKey {
            signature: master.sign(CertifiedKey::SIGNING, &statement),
            key,
            master: of,
        })
    }
}

/// Cached data of a minion with an accepted key. Each worker has one for each minion, so it is kept small: a
/// [`SessionCipher`] would take 2 KiB, and is derived from its key in less than a microsecond.
struct Peer {
    version: Version,
    /// The parsed key (3 KiB), for minions that need it repeatedly.
    key: Option<Box<IdentityPublic>>,
    token: Option<Vec<u8>>,
    session: Option<(CipherKind, Version, KeyString)>,
}

/// Processes of runners started by this worker.
#[derive(Default)]
pub(crate) struct Runners(Vec<Runner>);

struct Runner {
    process: Child,
    /// Its place among those in progress.
    _slot: Slot,
    /// What is said if it is ended before it has said anything: tag and data.
    ret: (String, Map),
}

impl Runners {
    /// Reaps those that have exited; the events of those that a signal has ended, which fired none.
    pub fn reap(&mut self) -> Vec<(String, Map)> {
        let mut told = Vec::new();
        self.0.retain_mut(|runner| match runner.process.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                if let Some(signal) = status.signal() {
                    let (tag, mut data) = std::mem::take(&mut runner.ret);
                    let why = format!("The process of the run was ended by signal {signal}.");
                    log::error!("{tag}: {why}");
                    data.set("return", why);
                    data.set("success", false);
                    told.push((tag, data));
                }
                false
            }
            Err(_) => false,
        });
        told
    }

    /// Adds the process of a call, and its place among those in progress.
    pub fn add(&mut self, process: Child, slot: Slot, call: &Call) {
        let data = halite_wire::map! {
            "fun" => format!("runner.{}", call.fun), "jid" => &call.jid, "user" => call.user.as_str(),
            "fun_args" => call.args.to_value(),
        };
        self.0.push(Runner {
            process,
            _slot: slot,
            ret: (format!("salt/run/{}/ret", call.jid), data),
        });
    }
}

impl Context {
    /// Reaps runners, and fires the events of those that could not.
    pub fn tell_of_runners(&mut self) {
        for (tag, data) in self.runners.reap() {
            self.bus.fire(&tag, data);
        }
    }

    pub fn new(
        config: Arc<MasterConfig>,
        lent: FunctionHooks,
        context: &sockets::Context,
    ) -> Result<Context, ExitError> {
        let options = PushOptions {
            reconnect: Some((Duration::from_millis(20), Duration::from_millis(200))),
            send_timeout: Some(Duration::from_secs(5)),
        };
        let path = config.publish_pull();
        let publish = Push::connect(context, &path, options)?;
        let in_cluster = config.cluster().is_some();
        // Nobody waits for that role: what it misses of jobs is in the job log.
        let briefly = PushOptions {
            send_timeout: Some(Duration::from_millis(50)),
            ..options
        };
        let to_cluster = || Push::connect(context, &config.cluster_pull(), briefly);
        let cluster = in_cluster.then(to_cluster).transpose()?;
        let master = crate::master_key(&config)?;
        let master_pub = halite_crypto::clean_key(&master.public().to_pem());
        let signing = PubkeySignature::load(&config, master.kind())?;
        let noise = CertifiedKey::load(&config, &master)?;
        let stores = Stores::open(&config);
        Ok(Context {
            access: Access::new(&config, &stores),
            stores,
            files: FileServer::new(&(&*config).into()),
            bus: Bus::new(&config),
            ports: config.ports(),
            publishes_privately: config.publishes_privately(),
            port: 0,
            batch: Batch::default(),
            shared: SharedSecret::inherited()?,
            jids: JidClock::default(),
            lent,
            runners: Runners::default(),
            aes: None,
            next_aes: None,
            peers: HashMap::new(),
            unknown: HashMap::new(),
            pillar: None,
            stats: Stats::default(),
            unfit: LogLimiter::default(),
            master,
            master_pub,
            signing,
            noise,
            publish,
            board: cluster
                .as_ref()
                .and_then(|_| Scoreboard::inherited().ok())
                .map(|(board, _)| board),
            waiting: config
                .cluster()
                .filter(|c| !c.patience.is_zero())
                .map(|c| WaitingAnswers {
                    acknowledge: c.acknowledge,
                    standing: None,
                }),
            cluster,
            config,
        })
    }

    /// Tells the other masters of the cluster that data of a minion were stored in this bank: `minion` or `mine`.
    pub fn stored(&self, bank: &str, id: &MinionId) {
        let parts = ["".as_bytes(), bank.as_bytes(), id.as_str().as_bytes()];
        if let Some(cluster) = &self.cluster
            && let Err(e) = cluster.send(&parts)
        {
            log::error!(minion:% = id; "data of {id} do not reach the other masters of the cluster: {e}");
        }
    }

    /// See [`Access::mk_token`]; the other masters of the cluster are told.
    pub fn mk_token(&mut self, load: &Map, peer: &str) -> Value {
        let answer = self.access.mk_token(load, peer);
        let token = answer.as_map().and_then(|answer| answer.str("token"));
        self.tell_token(token.unwrap_or_default());
        answer
    }

    /// See [`Access::rm_token`]; the other masters of the cluster are told.
    pub fn rm_token(&mut self, load: &Map) -> Value {
        let answer = self.access.rm_token(load);
        if answer == Value::from(true) {
            self.tell_token(load.str("token").unwrap_or_default());
        }
        answer
    }

    fn tell_token(&self, token: &str) {
        if let Some(cluster) = self.cluster.as_ref().filter(|_| !token.is_empty()) {
            let digest = TokenDigest::of(token);
            let parts = ["".as_bytes(), b"token", digest.as_str().as_bytes()];
            if let Err(e) = cluster.send(&parts) {
                log::error!("a token does not reach the other masters of the cluster: {e}");
            }
        }
    }

    /// Whether answers to returns of these jobs wait until the servers of the cluster have them.
    pub fn waits_for_cluster(&mut self, stored: &BTreeSet<Jid>) -> bool {
        let Some(waiting) = self.waiting.as_mut().filter(|_| !stored.is_empty()) else {
            return false;
        };
        if waiting.acknowledge == Acknowledge::Quorum {
            return true;
        }
        // Without a connection nobody waits for what cannot come.
        let now = Instant::now();
        let is_known = |at: Instant| now.saturating_duration_since(at) < STANDING;
        if let Some((is_member, _)) = waiting.standing.filter(|(_, at)| is_known(*at)) {
            return is_member;
        }
        let is_member = self.is_member();
        if let Some(waiting) = &mut self.waiting {
            waiting.standing = Some((is_member, now));
        }
        is_member
    }

    /// Asks for the acknowledgement of a group of requests whose answers wait: `seq`, and the jobs with returns.
    pub fn ask_cluster(&self, seq: &[u8], stored: &BTreeSet<Jid>) {
        let mut parts = vec!["".as_bytes(), b"returns", seq];
        parts.extend(stored.iter().map(|jid| jid.as_str().as_bytes()));
        if let Some(cluster) = &self.cluster
            && let Err(e) = cluster.send(&parts)
        {
            log::debug!("answers to returns wait longer: {e}");
        }
    }

    /// Whether this master is connected to its cluster.
    pub fn is_member(&self) -> bool {
        let board = self.board.as_ref();
        board.is_some_and(|board| score::cluster(board, unix_now()).is_member)
    }

    /// The publish port that belongs to the port of the present request.
    pub fn publish_port(&self) -> u16 {
        let ports = self.ports.get(self.port);
        ports.map_or(self.config.publish_port, |ports| ports.publish_port)
    }

    /// Whether minions say who they are when they subscribe.
    pub fn has_registration(&self) -> bool {
        self.ports.iter().any(|p| p.transport == Transport::Tcp)
    }

    /// The counters for the scoreboard.
    pub fn counters(&self) -> Map {
        let mut counters = self.stats.to_map();
        counters.set("unfired", self.bus.lost());
        counters
    }

    /// A new, unique job id.
    pub fn new_jid(&mut self) -> Jid {
        let jid = self.jids.next();
        match self.config.unique_jid {
            true => jid.with_pid(std::process::id()),
            false => jid,
        }
    }

    /// The pillar compiler; created on first use.
    pub fn pillar(&mut self) -> Rc<PillarCompiler> {
        let config = &self.config;
        self.pillar
            .get_or_insert_with(|| Rc::new(PillarCompiler::new(config)))
            .clone()
    }

    /// The AES key in force.
    pub fn aes_key(&mut self) -> Result<AesKey, ExitError> {
        let generation = self.shared.generation()?;
        if let Some(key) = self.aes.as_ref().filter(|k| k.generation == generation) {
            return Ok(key.clone());
        }
        // Usually this is the key that was on offer, and is signed already.
        let key = match self.next_aes.take().filter(|k| k.generation == generation) {
            Some(key) => key,
            None => self.signed_key(self.shared.load_key()?)?,
        };
        self.aes = Some(key.clone());
        Ok(key)
    }

    /// The AES key on offer for the time after `rotation_grace`, if there is one.
    pub fn next_aes_key(&mut self) -> Result<Option<AesKey>, ExitError> {
        let Some((generation, text)) = self.shared.offered()? else {
            return Ok(None);
        };
        if self
            .next_aes
            .as_ref()
            .is_none_or(|k| k.generation != generation)
        {
            self.next_aes = Some(self.signed_key((generation, text))?);
        }
        Ok(self.next_aes.clone())
    }

    fn signed_key(
        &self,
        (generation, text): (u64, Zeroizing<String>),
    ) -> Result<AesKey, ExitError> {
        let digest = halite_crypto::HashType::Sha256.hex(text.as_bytes());
        Ok(AesKey {
            generation,
            digest_signature: self.master.sign_digest(&digest),
            text: KeyString::from_text(&text).map_err(|e| ExitError::new(1, e.to_string()))?,
        })
    }

    /// The accepted key of `id`, parsed once per file; `None` if there is none.
    pub fn accepted_key(&mut self, id: &MinionId) -> Option<IdentityPublic> {
        if self.peer(id)?.key.is_none() {
            let key = Box::new(self.read_key(id)?);
            self.peers.get_mut(id)?.key = Some(key);
        }
        self.peers.get(id)?.key.as_deref().cloned()
    }

    fn read_key(&self, id: &MinionId) -> Option<IdentityPublic> {
        let text = self.stores.keys.get(KeyState::Accepted, id).ok()??;
        IdentityPublic::from_pem(&text)
            .inspect_err(|e| log::error!("the accepted key of {id} is unusable: {e}"))
            .ok()
    }

    fn peer(&mut self, id: &MinionId) -> Option<&mut Peer> {
        let version = self.stores.keys.version(KeyState::Accepted, id)?;
        let fresh = self.peers.get(id).is_some_and(|p| p.version == version);
        if !fresh {
            if self.peers.len() >= PEERS_HELD {
                self.peers.clear();
            }
            self.peers.insert(
                id.clone(),
                Peer {
                    version,
                    key: None,
                    token: None,
                    session: None,
                },
            );
        }
        self.peers.get_mut(id)
    }

    /// Whether `token` is the signature of `salt` by the accepted key of `id`
    /// (`ReqServerChannel.validate_token`). It does not change for a key, so it is verified once for all
    /// requests. Call it right after [`Context::open`], which has checked the key.
    pub fn token_valid(&mut self, id: &MinionId, token: &[u8]) -> bool {
        let Some(peer) = self.peers.get(id) else {
            return false;
        };
        if let Some(known) = &peer.token {
            return halite_crypto::constant_time_eq(known, token);
        }
        if !self.read_key(id).is_some_and(|key| key.made_tok(token)) {
            return false;
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.token = Some(token.to_vec());
        }
        true
    }

    /// Decrypts with the session key of `id`, which must have an accepted key and a session that has not expired.
    pub fn open(
        &mut self,
        kind: CipherKind,
        id: &MinionId,
        load: &[u8],
    ) -> Option<(SessionCipher, Vec<u8>)> {
        let open = |key: &KeyString| {
            let cipher = SessionCipher::new(kind, key);
            let plain = cipher.open_request(id.as_str(), load)?;
            Some((cipher, plain))
        };
        // None if it has expired or was removed, whatever is cached.
        let version = self.stores.sessions.version(kind, id)?;
        if let Some((held, of, key)) = &self.peer(id)?.session
            && (*held, *of) == (kind, version)
        {
            return open(key);
        }
        let key = self.stores.sessions.get(kind, id).ok()??;
        let opened = open(&key)?;
        if let Some(peer) = self.peers.get_mut(id) {
            peer.session = Some((kind, version, key));
        }
        Some(opened)
    }

    /// Ends a session of `id`, if it has one of this kind.
    pub fn end_session(&self, kind: CipherKind, id: &MinionId) {
        let sessions = &self.stores.sessions;
        if sessions.version(kind, id).is_some()
            && let Err(e) = sessions.end(kind, id)
        {
            log::error!(minion:% = id; "a session of {id} cannot be ended: {e}");
        }
    }

    /// Stores and fires the returns and events that wait.
    pub fn flush(&mut self) {
        self.batch.flush(&*self.stores.jobs, &mut self.bus);
    }

    /// Counts an unknown command, and logs it once per name.
    pub fn count_unknown(&mut self, cmd: &str, peer: &str) {
        self.stats.unknown += 1;
        let name: String = cmd.chars().take(40).collect();
        if self.unknown.len() >= 100 && !self.unknown.contains_key(&name) {
            return;
        }
        let count = self.unknown.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 {
            log::info!("{peer} sent the unknown command {name:?}; answered with an empty map");
        }
    }
}
