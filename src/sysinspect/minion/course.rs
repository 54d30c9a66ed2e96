//! The minion's state machine. Does no IO: the time, received frames and results of functions are passed in, and it
//! returns the actions to take.
//!
//! There are two ways to join a master. If its key is already accepted: connect, send `ehlo`, and receive `tr` with
//! code 1. Otherwise: send `add`, receive the master's key, which must have the fingerprint given by the operator, and
//! send `ehlo` with the minion's id encrypted with that key (the seed's sequence); in the later dialect the key comes
//! with `undef`, and `add` carries the minion's own. While the master does not know the minion, or its operator has
//! not accepted it, both are tried in turn, with growing pauses.

use super::command::Command;
use super::results::PendingCommand;
use super::settings::Settings;
use super::traits::{self, names};
use super::trust;
use crate::target::Minion;
use crate::wire::{
    Code, DecodeError, Dialect, MasterMessage, MessageKind, MinionMessage, Target, payload_value,
};
use halite_crypto::PublicKey;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Silence of the master after which the connection counts as lost (reference 6); the master pings every 5 s.
pub const SILENCE: Duration = Duration::from_secs(10);
/// How long a master may keep the session of a lost connection (reference 6).
const STALE_SESSION: Duration = Duration::from_secs(60);
/// Pings without any other answer to `ehlo` after which it was accepted: masters of E1 do not answer a good one, and
/// one ping may be on its way before a refusal.
const WELCOME_PINGS: u8 = 2;
/// The commands of E3's masters that remove a minion and change its traits.
const REMOVE: &str = "cmd://cluster/minion/remove";
const UPDATE_TRAITS: &str = "cmd://cluster/traits/update";
/// Results kept for the next connection.
const MAX_UNSENT: usize = 256;

/// An action to take.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect, then call [`Course::connected`] or [`Course::lost`].
    Connect,
    /// Send a message.
    Send(MinionMessage),
    /// Close the connection; [`Course::lost`] need not be called.
    Close,
    /// Run a function, then call [`Course::finished`] with this number.
    Run(u64, Command),
    /// Store the master's key.
    Pin(PublicKey),
    /// Remove the stored registration.
    Forget,
    /// Store these pushed traits.
    StoreTraits(Map),
    /// Exit with this status and message.
    Exit(i32, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until this time.
    Waiting(Duration),
    Connecting,
    /// `ehlo` was sent.
    Greeting,
    /// `add` was sent.
    Registering,
    /// The encrypted id was sent.
    Proving,
    Joined,
    Ended,
}

/// The first message on the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstMessage {
    Hello,
    Add,
}

/// The state of the minion.
pub struct Course {
    settings: Settings,
    pinned: Option<PublicKey>,
    phase: Phase,
    first_message: FirstMessage,
    /// Connection attempts since the last ping of a joined master.
    attempts: u32,
    /// Pings since `ehlo` was sent.
    pings: u8,
    heard: Duration,
    /// When the minion last joined.
    joined: Option<Duration>,
    own_traits: Map,
    pushed: Map,
    asked: Vec<PendingCommand>,
    numbers: u64,
    /// Cycles finished since the last pong.
    done: Vec<String>,
    unsent: Vec<MinionMessage>,
}

impl Course {
    /// A minion that has accepted the key `pinned` before, with the pushed traits `pushed`.
    pub fn new(settings: Settings, pinned: Option<PublicKey>, pushed: Map) -> Course {
        let first_message = match settings.dialect {
            Dialect::Seed if pinned.is_none() && !settings.fingerprint.is_empty() => {
                FirstMessage::Add
            }
            _ => FirstMessage::Hello,
        };
        Course {
            settings,
            pinned,
            phase: Phase::Waiting(Duration::ZERO),
            first_message,
            attempts: 0,
            pings: 0,
            heard: Duration::ZERO,
            joined: None,
            own_traits: Map::new(),
            pushed,
            asked: Vec::new(),
            numbers: 0,
            done: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// Sets the traits of this host; pushed traits override them.
    pub fn set_traits(&mut self, traits: Map) {
        self.own_traits = traits;
    }

    /// All traits.
    pub fn traits(&self) -> Map {
        let mut all = self.own_traits.clone();
        for (key, value) in self.pushed.iter() {
            all.set(key.as_str().unwrap_or_default(), value.clone());
        }
        // A pushed trait must not change the id.
        all.set("system.id", &self.settings.id);
        all
    }

    /// The dialect of its messages.
    pub fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    /// Whether the master has accepted the minion.
    pub fn is_joined(&self) -> bool {
        self.phase == Phase::Joined
    }

    /// When [`Course::tick`] must be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting(until) => Some(until),
            Phase::Connecting | Phase::Ended => None,
            _ => Some(self.heard + SILENCE),
        }
    }

    /// Handles timeouts.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        if self.deadline().is_none_or(|due| now < due) {
            return Vec::new();
        }
        if matches!(self.phase, Phase::Waiting(_)) {
            self.phase = Phase::Connecting;
            return vec![Action::Connect];
        }
        let hint = match self.joined {
            Some(_) => "",
            None => "; it may speak another dialect, see the option sysinspect_dialect",
        };
        log::warn!("the master is silent{hint}; reconnecting");
        self.close(now)
    }

    /// The connection is open.
    pub fn connected(&mut self, now: Duration) -> Vec<Action> {
        if self.phase != Phase::Connecting {
            return Vec::new();
        }
        self.heard = now;
        self.pings = 0;
        let dialect = self.settings.dialect;
        let (kind, data): (MessageKind, Value) = match self.first_message {
            FirstMessage::Hello => {
                self.phase = Phase::Greeting;
                let data = match dialect {
                    Dialect::Seed => "".into(),
                    Dialect::E1 => self.settings.session.as_str().into(),
                    Dialect::Modern => self.traits().into(),
                };
                (MessageKind::Ehlo, data)
            }
            FirstMessage::Add => {
                self.phase = Phase::Registering;
                let key = match dialect {
                    Dialect::Seed => "",
                    Dialect::E1 | Dialect::Modern => self.settings.own_key.as_str(),
                };
                (MessageKind::Add, key.into())
            }
        };
        vec![self.send(kind, data)]
    }

    /// The connection failed or was closed by the master.
    pub fn lost(&mut self, now: Duration) -> Vec<Action> {
        if !matches!(self.phase, Phase::Waiting(_) | Phase::Ended) {
            self.back_off(now);
        }
        Vec::new()
    }

    /// Handles a frame.
    pub fn receive(&mut self, now: Duration, body: &[u8]) -> Vec<Action> {
        if matches!(
            self.phase,
            Phase::Waiting(_) | Phase::Connecting | Phase::Ended
        ) {
            return Vec::new();
        }
        self.heard = now;
        let message = match self.decode(body) {
            Ok(message) => message,
            Err(e) => {
                log::warn!("dropped a frame from the master: {e}");
                return Vec::new();
            }
        };
        match message.kind {
            MessageKind::Pi => self.answer_ping(now, &message),
            MessageKind::Undef if self.is_answer(&message) => self.unknown(now, &message),
            MessageKind::Retry if self.is_answer(&message) => self.retry(now, &message),
            MessageKind::Add if self.phase == Phase::Registering && self.is_answer(&message) => {
                self.receive_key(now, &message)
            }
            MessageKind::Cmd if message.code == Code::AlreadyConnected => {
                self.duplicate(now, &message)
            }
            MessageKind::Cmd if self.is_joined() && self.is_for_us(&message) => {
                let target = message.targets.first();
                match target.map(|target| target.scheme.as_str()) {
                    Some(REMOVE) => {
                        let mut out = vec![self.send(MessageKind::Bye, &*self.settings.session)];
                        out.extend(self.removed());
                        out
                    }
                    Some(UPDATE_TRAITS) => self.update_traits(&message),
                    _ => self.command(message),
                }
            }
            MessageKind::Rm if self.is_joined() && self.is_for_us(&message) => self.removed(),
            MessageKind::Tr if self.is_joined() && self.is_for_us(&message) => {
                self.exchange_traits(&message)
            }
            // The seed does not say which type welcomes a minion, only that the code is not zero.
            MessageKind::Tr | MessageKind::Ehlo | MessageKind::Rsp
                if message.code == Code::Success
                    && matches!(self.phase, Phase::Greeting | Phase::Proving)
                    && self.is_answer(&message) =>
            {
                self.welcome(now, &message)
            }
            other => {
                log::debug!("ignored {other} with code {}", message.code.number());
                Vec::new()
            }
        }
    }

    /// A function has returned.
    pub fn finished(
        &mut self,
        number: u64,
        value: &Value,
        retcode: i64,
        stamp: &str,
    ) -> Vec<Action> {
        let Some(at) = self.asked.iter().position(|asked| asked.number == number) else {
            return Vec::new();
        };
        let asked = self.asked.swap_remove(at);
        let messages = asked.messages(&self.settings, value, retcode, stamp);
        self.done.push(asked.cycle);
        if self.is_joined() {
            return messages.into_iter().map(Action::Send).collect();
        }
        self.unsent.extend(messages);
        let excess = self.unsent.len().saturating_sub(MAX_UNSENT);
        self.unsent.drain(..excess);
        Vec::new()
    }

    /// Decodes a frame. A master that does not write base64 is one of E1, which is spoken to in its own dialect then.
    fn decode(&mut self, body: &[u8]) -> Result<MasterMessage, DecodeError> {
        let read = MasterMessage::decode(body, self.settings.dialect);
        let plain = matches!(read, Err(DecodeError::BadPayload(_)));
        if !plain || self.settings.dialect != Dialect::Seed || self.is_joined() {
            return read;
        }
        let message = MasterMessage::decode(body, Dialect::E1)?;
        log::info!("the master is of 2024-11 (E1)");
        self.settings.dialect = Dialect::E1;
        Ok(message)
    }

    /// The master has removed this minion.
    fn removed(&mut self) -> Vec<Action> {
        self.phase = Phase::Ended;
        let text = "the master has removed this minion; register it to use it again";
        vec![
            Action::Forget,
            Action::Close,
            Action::Exit(0, text.to_owned()),
        ]
    }

    fn send(&self, kind: MessageKind, data: impl Into<Value>) -> Action {
        Action::Send(self.settings.message(kind, data))
    }

    /// Whether an answer is for this minion: masters of the programs send every answer to every minion.
    fn is_answer(&self, message: &MasterMessage) -> bool {
        let blank = |t: &Target| t.ids.is_empty() && t.hosts.is_empty() && t.traits.is_empty();
        message.targets.iter().all(blank) || self.is_for_us(message)
    }

    fn is_for_us(&self, message: &MasterMessage) -> bool {
        let traits = self.traits();
        let minion = Minion {
            id: self.settings.id.as_str(),
            hosts: &names(&traits),
            traits: &traits,
        };
        minion.matches(&message.targets)
    }

    /// Answers a ping, whatever its target, but only once joined: programs take a pong for a hello.
    fn answer_ping(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        if self.phase == Phase::Greeting && self.settings.dialect != Dialect::Modern {
            self.pings += 1;
            if self.pings >= WELCOME_PINGS {
                log::info!("the master pings this minion, so it has accepted it");
                self.settings.dialect = Dialect::E1;
                self.phase = Phase::Joined;
                self.joined = Some(now);
            }
        }
        if !self.is_joined() {
            return Vec::new();
        }
        self.attempts = 0;
        let done = std::mem::take(&mut self.done);
        let data: Value = match self.settings.dialect {
            Dialect::Modern => map! {
                "pt" => "pt:g",
                "sid" => self.settings.session.as_str(),
                "pl" => map! {"ld" => 0.0, "cd" => done, "dbps" => 0.0, "cpu" => 0.0},
            }
            .into(),
            Dialect::E1 => self.settings.session.as_str().into(),
            Dialect::Seed => "".into(),
        };
        let mut pong = self.settings.message(MessageKind::Po, data);
        if self.settings.dialect == Dialect::Seed {
            pong.cycle = message.cycle.clone();
        }
        vec![Action::Send(pong)]
    }

    /// `undef`: the master does not know the minion, has not accepted it, or rejects its proof.
    fn unknown(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let key = message
            .data
            .as_str()
            .and_then(|t| PublicKey::from_pem(t).ok());
        let mut out = Vec::new();
        if let Some(key) = key {
            match self.verify_key(&key) {
                Ok(true) => out.push(Action::Pin(key)),
                Ok(false) => {}
                Err((status, text)) => return self.end(status, text),
            }
        } else if self.pinned.is_none() && self.settings.fingerprint.is_empty() {
            return self.end(
                1,
                "the master does not know this minion and has not sent its key".to_owned(),
            );
        }
        match message.code {
            Code::GeneralFailure => {
                log::error!("the master refuses the registration; trying again later");
            }
            _ => {
                // A warning for the first attempt only.
                let level = match self.attempts {
                    0 => log::Level::Warn,
                    _ => log::Level::Info,
                };
                log::log!(
                    level,
                    "the master does not know this minion, or its operator has not accepted it yet"
                );
            }
        }
        self.first_message = match self.first_message {
            FirstMessage::Hello => FirstMessage::Add,
            FirstMessage::Add => FirstMessage::Hello,
        };
        out.extend(self.close(now));
        out
    }

    /// `retry`: registered now, registered already, or refused for now; the next attempt will show.
    fn retry(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let text: String = message
            .data
            .as_str()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        log::info!("the master asks this minion to reconnect: {text}");
        if message.code != Code::GeneralFailure {
            self.first_message = FirstMessage::Hello;
        }
        self.close(now)
    }

    /// Checks a key of the master: whether it is new. An error ends the minion.
    fn verify_key(&mut self, key: &PublicKey) -> Result<bool, (i32, String)> {
        let new = trust::verify(key, self.pinned.as_ref(), &self.settings.fingerprint)?;
        if new {
            self.pinned = Some(key.clone());
        }
        Ok(new)
    }

    /// The master's key, in answer to `add`.
    fn receive_key(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let key = message.data.as_str().map(PublicKey::from_pem);
        let Some(Ok(key)) = key else {
            log::error!(
                "the master's answer to the registration does not contain an RSA public key"
            );
            return self.close(now);
        };
        let mut out = Vec::new();
        match self.verify_key(&key) {
            Ok(true) => out.push(Action::Pin(key.clone())),
            Ok(false) => {}
            Err((status, text)) => return self.end(status, text),
        }
        match key.encrypt_pkcs1v15(self.settings.id.as_str().as_bytes()) {
            Ok(cipher) => {
                self.phase = Phase::Proving;
                out.push(self.send(MessageKind::Ehlo, Value::Bytes(cipher)));
                out
            }
            Err(e) => self.end(1, format!("the id cannot be encrypted: {e}")),
        }
    }

    fn welcome(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        log::info!("the master has accepted this minion");
        self.phase = Phase::Joined;
        self.joined = Some(now);
        self.first_message = FirstMessage::Hello;
        let mut out = Vec::new();
        if message.kind == MessageKind::Tr {
            out.push(self.send(MessageKind::Tr, self.traits()));
        }
        out.extend(self.unsent.drain(..).map(Action::Send));
        out
    }

    /// The master requests or pushes traits; the answer to both is all traits.
    fn exchange_traits(&mut self, message: &MasterMessage) -> Vec<Action> {
        let mut out = Vec::new();
        if let Value::Map(pushed) = payload_value(&message.data)
            && !pushed.is_empty()
        {
            out.push(self.push_traits(pushed));
        }
        let mut answer = self.settings.message(MessageKind::Tr, self.traits());
        if self.settings.dialect == Dialect::Seed {
            answer.cycle = message.cycle.clone();
        }
        out.push(Action::Send(answer));
        out
    }

    /// Sets traits; `None` removes one.
    fn push_traits(&mut self, pushed: Map) -> Action {
        for (key, value) in pushed.0 {
            let Some(key) = key.as_str().filter(|key| !key.is_empty()) else {
                continue;
            };
            if value.is_nil() {
                drop(self.pushed.remove(key))
            } else {
                self.pushed.set(key, value)
            }
        }
        Action::StoreTraits(self.pushed.clone())
    }

    /// `cmd://cluster/traits/update`.
    fn update_traits(&mut self, message: &MasterMessage) -> Vec<Action> {
        let context = message.targets.first().map(|target| target.context.clone());
        match traits::update(&context.unwrap_or_default(), &self.pushed) {
            Ok(traits) => vec![
                self.push_traits(traits),
                self.send(MessageKind::Tr, self.traits()),
            ],
            Err(why) => {
                log::warn!("refused new traits: {why}");
                Vec::new()
            }
        }
    }

    /// Another connection holds the session: another minion of this machine, or our own previous connection.
    fn duplicate(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        if self.is_joined() || !self.is_answer(message) {
            return Vec::new();
        }
        if self
            .joined
            .is_some_and(|at| now < at.max(self.heard) + STALE_SESSION)
        {
            log::info!("the master still has the session of the previous connection; trying again");
            return self.close(now);
        }
        let id = &self.settings.id;
        self.end(
            1,
            format!(
                "another minion with the machine id {id} is connected to the master; stop it first"
            ),
        )
    }

    fn command(&mut self, message: MasterMessage) -> Vec<Action> {
        let target = message.targets.first();
        let context = target.map_or("", |t| t.context.as_str());
        let read = Command::read(&message.data, context, &self.settings.allowed);
        self.numbers += 1;
        let number = self.numbers;
        let fun = read.as_ref().map_or("", |c| c.fun.as_str()).to_owned();
        self.asked.push(PendingCommand {
            number,
            cycle: message.cycle,
            fun,
        });
        match read {
            Ok(command) => vec![Action::Run(number, command)],
            Err(why) => {
                log::warn!("refused a command: {why}");
                self.finished(number, &why.into(), 1, "")
            }
        }
    }

    fn close(&mut self, now: Duration) -> Vec<Action> {
        self.back_off(now);
        vec![Action::Close]
    }

    fn back_off(&mut self, now: Duration) {
        let (first, longest) = self.settings.pauses;
        let pause = first
            .saturating_mul(1 << self.attempts.min(16))
            .min(longest);
        self.attempts = self.attempts.saturating_add(1);
        let spread = 0.5 + 0.5 * (self.settings.chance)().clamp(0.0, 1.0);
        self.phase = Phase::Waiting(now + pause.mul_f64(spread));
    }

    fn end(&mut self, status: i32, text: String) -> Vec<Action> {
        self.phase = Phase::Ended;
        vec![Action::Close, Action::Exit(status, text)]
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
