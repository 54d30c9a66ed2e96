//! What the minion does next. No IO: the time, what was read and what a function returned come in,
//! what is to be done goes out.
//!
//! A master is joined in one of two ways. With its key accepted before: connect, `ehlo`, and the
//! answer `tr` with code 1. Without: `add`, the master's key, which must have the fingerprint that
//! the operator gave, and `ehlo` with the minion's id under that key (the seed's sequence); in the
//! later dialect the key comes with `undef`, and `add` carries the minion's own. While the master
//! does not know the minion, or its operator has not decided, the two are tried in turn, with
//! growing pauses.

use super::command::Command;
use super::results::Asked;
use super::traits::names;
use super::trust;
use crate::target::Minion;
use crate::wire::{
    Code, Dialect, Kind, MachineId, MasterMessage, MinionMessage, Target, payload_value,
};
use halite_crypto::PublicKey;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Silence of the master after which the connection counts as lost (reference 6); it pings every 5 s.
pub const SILENCE: Duration = Duration::from_secs(10);
/// How long a master may hold the session of a connection that was lost (reference 6).
const STALE_SESSION: Duration = Duration::from_secs(60);
/// Answers kept for the next connection.
const MAX_UNSENT: usize = 256;
/// What does not change while the minion runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is.
    pub id: MachineId,
    /// How it speaks: the seed's way, or the later one.
    pub dialect: Dialect,
    /// Session of this run, a UUID.
    pub session: String,
    /// Fingerprint of the master's key, lower case, empty if none was given.
    pub fingerprint: String,
    /// The own public key as sysinspect writes it.
    pub own_key: String,
    /// Globs over the functions that may run.
    pub allowed: Vec<String>,
    /// First and longest pause before another attempt to connect.
    pub pauses: (Duration, Duration),
    /// A number from 0 to 1 by chance, which spreads the pauses.
    pub chance: fn() -> f64,
}

impl Settings {
    /// A message of this minion.
    pub(super) fn message(&self, kind: Kind, data: impl Into<Value>) -> MinionMessage {
        let mut message = MinionMessage::new(&self.id, kind, data);
        if self.dialect == Dialect::Modern && kind != Kind::Add {
            message.session = self.session.clone();
        }
        message
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect, and say [`Course::connected`] or [`Course::lost`].
    Connect,
    /// Send a message.
    Send(MinionMessage),
    /// Close the connection, without saying so.
    Close,
    /// Run a function and say [`Course::finished`] with this number.
    Run(u64, Command),
    /// Keep the master's key.
    Pin(PublicKey),
    /// Forget the registration.
    Forget,
    /// Keep these pushed traits.
    Keep(Map),
    /// End, with this exit status and message.
    End(i32, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits until then.
    Resting(Duration),
    Connecting,
    /// `ehlo` is sent.
    Greeting,
    /// `add` is sent.
    Registering,
    /// The enciphered id is sent.
    Proving,
    Joined,
    Ended,
}

/// What is said first at the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Hello,
    Add,
}

/// The state of the minion.
pub struct Course {
    settings: Settings,
    pinned: Option<PublicKey>,
    phase: Phase,
    opening: Opening,
    /// Attempts since the master was last joined for good.
    attempts: u32,
    heard: Duration,
    /// When the minion was last joined.
    joined: Option<Duration>,
    own_traits: Map,
    pushed: Map,
    asked: Vec<Asked>,
    numbers: u64,
    /// Cycles finished since the last pong.
    done: Vec<String>,
    unsent: Vec<MinionMessage>,
}

impl Course {
    /// A minion that has accepted `pinned` before, and been given the traits `pushed`.
    pub fn new(settings: Settings, pinned: Option<PublicKey>, pushed: Map) -> Course {
        let opening = match settings.dialect {
            Dialect::Seed if pinned.is_none() && !settings.fingerprint.is_empty() => Opening::Add,
            _ => Opening::Hello,
        };
        Course {
            settings,
            pinned,
            phase: Phase::Resting(Duration::ZERO),
            opening,
            attempts: 0,
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

    /// The traits of this host from now on; pushed ones lie over them.
    pub fn set_traits(&mut self, traits: Map) {
        self.own_traits = traits;
    }

    /// All traits.
    pub fn traits(&self) -> Map {
        let mut all = self.own_traits.clone();
        for (key, value) in self.pushed.iter() {
            all.set(key.as_str().unwrap_or_default(), value.clone());
        }
        // Nobody is somebody else by a pushed trait.
        all.set("system.id", &self.settings.id);
        all
    }

    /// Whether the master has let it in.
    pub fn is_joined(&self) -> bool {
        self.phase == Phase::Joined
    }

    /// When [`Course::passed`] has something to do at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Resting(until) => Some(until),
            Phase::Connecting | Phase::Ended => None,
            _ => Some(self.heard + SILENCE),
        }
    }

    /// Time has passed.
    pub fn passed(&mut self, now: Duration) -> Vec<Action> {
        if self.deadline().is_none_or(|due| now < due) {
            return Vec::new();
        }
        if matches!(self.phase, Phase::Resting(_)) {
            self.phase = Phase::Connecting;
            return vec![Action::Connect];
        }
        log::warn!("the master is silent; connecting again");
        self.close(now)
    }

    /// The connection stands.
    pub fn connected(&mut self, now: Duration) -> Vec<Action> {
        if self.phase != Phase::Connecting {
            return Vec::new();
        }
        self.heard = now;
        let modern = self.settings.dialect == Dialect::Modern;
        let (kind, data): (Kind, Value) = match self.opening {
            Opening::Hello => {
                self.phase = Phase::Greeting;
                let traits = modern.then(|| self.traits());
                (Kind::Ehlo, traits.map_or("".into(), Value::from))
            }
            Opening::Add => {
                self.phase = Phase::Registering;
                let key = if modern {
                    self.settings.own_key.as_str()
                } else {
                    ""
                };
                (Kind::Add, key.into())
            }
        };
        vec![self.send(kind, data)]
    }

    /// The connection could not be made, or was closed by the other side.
    pub fn lost(&mut self, now: Duration) -> Vec<Action> {
        if !matches!(self.phase, Phase::Resting(_) | Phase::Ended) {
            self.rest(now);
        }
        Vec::new()
    }

    /// A frame came.
    pub fn heard(&mut self, now: Duration, body: &[u8]) -> Vec<Action> {
        if matches!(
            self.phase,
            Phase::Resting(_) | Phase::Connecting | Phase::Ended
        ) {
            return Vec::new();
        }
        self.heard = now;
        let message = match MasterMessage::decode(body, self.settings.dialect) {
            Ok(message) => message,
            Err(e) => {
                log::warn!("a frame of the master is dropped: {e}");
                return Vec::new();
            }
        };
        match message.kind {
            Kind::Pi => self.pinged(&message),
            Kind::Undef if self.is_answer(&message) => self.unknown(now, &message),
            Kind::Retry if self.is_answer(&message) => self.again(now, &message),
            Kind::Add if self.phase == Phase::Registering && self.is_answer(&message) => {
                self.key_came(now, &message)
            }
            Kind::Cmd if message.code == Code::AlreadyConnected => self.duplicate(now, &message),
            Kind::Cmd if self.is_joined() && self.is_meant(&message) => self.command(message),
            Kind::Rm if self.is_joined() && self.is_meant(&message) => {
                self.phase = Phase::Ended;
                let text = "the master has removed this minion; register it to use it again";
                vec![
                    Action::Forget,
                    Action::Close,
                    Action::End(0, text.to_owned()),
                ]
            }
            Kind::Tr if self.is_joined() && self.is_meant(&message) => self.traits_asked(&message),
            // The seed does not say which type welcomes a minion, only that the code is not zero.
            Kind::Tr | Kind::Ehlo | Kind::Rsp
                if message.code == Code::Success
                    && matches!(self.phase, Phase::Greeting | Phase::Proving)
                    && self.is_answer(&message) =>
            {
                self.welcome(now, &message)
            }
            other => {
                log::debug!("{other} with code {} is passed over", message.code.number());
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

    fn send(&self, kind: Kind, data: impl Into<Value>) -> Action {
        Action::Send(self.settings.message(kind, data))
    }

    /// Whether an answer is for this minion: masters of the programs send every answer to everybody.
    fn is_answer(&self, message: &MasterMessage) -> bool {
        let blank = |t: &Target| t.ids.is_empty() && t.hosts.is_empty() && t.traits.is_empty();
        message.targets.iter().all(blank) || self.is_meant(message)
    }

    fn is_meant(&self, message: &MasterMessage) -> bool {
        let traits = self.traits();
        let minion = Minion {
            id: self.settings.id.as_str(),
            hosts: &names(&traits),
            traits: &traits,
        };
        minion.is_meant(&message.targets)
    }

    /// A ping is answered whatever its target, but by members alone: programs take a pong for a hello.
    fn pinged(&mut self, message: &MasterMessage) -> Vec<Action> {
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
            _ => "".into(),
        };
        let mut pong = self.settings.message(Kind::Po, data);
        if self.settings.dialect == Dialect::Seed {
            pong.cycle = message.cycle.clone();
        }
        vec![Action::Send(pong)]
    }

    /// `undef`: the master does not know the minion, or not yet, or refuses its proof.
    fn unknown(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let key = message
            .data
            .as_str()
            .and_then(|t| PublicKey::from_pem(t).ok());
        let mut out = Vec::new();
        if let Some(key) = key {
            match self.judge(&key) {
                Ok(true) => out.push(Action::Pin(key)),
                Ok(false) => {}
                Err((status, text)) => return self.end(status, text),
            }
        } else if self.pinned.is_none() && self.settings.fingerprint.is_empty() {
            return self.end(
                1,
                "the master does not know this minion, and has told no key".to_owned(),
            );
        }
        match message.code {
            Code::GeneralFailure => {
                log::error!("the master refuses the registration; trying again later");
            }
            _ => {
                // Said aloud once, not with every attempt.
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
        self.opening = match self.opening {
            Opening::Hello => Opening::Add,
            Opening::Add => Opening::Hello,
        };
        out.extend(self.close(now));
        out
    }

    /// `retry`: registered, or registered already, or not now; the next attempt tells.
    fn again(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let text: String = message
            .data
            .as_str()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        log::info!("the master asks to connect again: {text}");
        if message.code != Code::GeneralFailure {
            self.opening = Opening::Hello;
        }
        self.close(now)
    }

    /// Whether a key of the master is good and new; the end of the minion if it is not good.
    fn judge(&mut self, key: &PublicKey) -> Result<bool, (i32, String)> {
        let new = trust::judge(key, self.pinned.as_ref(), &self.settings.fingerprint)?;
        if new {
            self.pinned = Some(key.clone());
        }
        Ok(new)
    }

    /// The master's key, in answer to `add`.
    fn key_came(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        let key = message.data.as_str().map(PublicKey::from_pem);
        let Some(Ok(key)) = key else {
            log::error!("the master's answer to the registration holds no RSA public key");
            return self.close(now);
        };
        let mut out = Vec::new();
        match self.judge(&key) {
            Ok(true) => out.push(Action::Pin(key.clone())),
            Ok(false) => {}
            Err((status, text)) => return self.end(status, text),
        }
        match key.encrypt_pkcs1v15(self.settings.id.as_str().as_bytes()) {
            Ok(cipher) => {
                self.phase = Phase::Proving;
                out.push(self.send(Kind::Ehlo, Value::Bytes(cipher)));
                out
            }
            Err(e) => self.end(1, format!("the id cannot be encrypted: {e}")),
        }
    }

    fn welcome(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        log::info!("the master has let this minion in");
        self.phase = Phase::Joined;
        self.joined = Some(now);
        self.opening = Opening::Hello;
        let mut out = Vec::new();
        if message.kind == Kind::Tr {
            out.push(self.send(Kind::Tr, self.traits()));
        }
        out.extend(self.unsent.drain(..).map(Action::Send));
        out
    }

    /// Traits are asked for, or pushed; the answer to both is all of them.
    fn traits_asked(&mut self, message: &MasterMessage) -> Vec<Action> {
        let mut out = Vec::new();
        if let Value::Map(pushed) = payload_value(&message.data)
            && !pushed.is_empty()
        {
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
            out.push(Action::Keep(self.pushed.clone()));
        }
        let mut answer = self.settings.message(Kind::Tr, self.traits());
        if self.settings.dialect == Dialect::Seed {
            answer.cycle = message.cycle.clone();
        }
        out.push(Action::Send(answer));
        out
    }

    /// Another connection holds the session: of this machine's other minion, or our own of before.
    fn duplicate(&mut self, now: Duration, message: &MasterMessage) -> Vec<Action> {
        if self.is_joined() || !self.is_answer(message) {
            return Vec::new();
        }
        if self
            .joined
            .is_some_and(|at| now < at.max(self.heard) + STALE_SESSION)
        {
            log::info!("the master still holds the session of the connection before; trying again");
            return self.close(now);
        }
        let id = &self.settings.id;
        self.end(
            1,
            format!("the master has a connection with the machine id {id} already; end the other minion first"),
        )
    }

    fn command(&mut self, message: MasterMessage) -> Vec<Action> {
        let target = message.targets.first();
        let context = target.map_or("", |t| t.context.as_str());
        let read = Command::read(&message.data, context, &self.settings.allowed);
        self.numbers += 1;
        let number = self.numbers;
        let fun = read.as_ref().map_or("", |c| c.fun.as_str()).to_owned();
        self.asked.push(Asked {
            number,
            cycle: message.cycle,
            fun,
        });
        match read {
            Ok(command) => vec![Action::Run(number, command)],
            Err(why) => {
                log::warn!("a command is refused: {why}");
                self.finished(number, &why.into(), 1, "")
            }
        }
    }

    fn close(&mut self, now: Duration) -> Vec<Action> {
        self.rest(now);
        vec![Action::Close]
    }

    fn rest(&mut self, now: Duration) {
        let (first, longest) = self.settings.pauses;
        let pause = first
            .saturating_mul(1 << self.attempts.min(16))
            .min(longest);
        self.attempts = self.attempts.saturating_add(1);
        let spread = 0.5 + 0.5 * (self.settings.chance)().clamp(0.0, 1.0);
        self.phase = Phase::Resting(now + pause.mul_f64(spread));
    }

    fn end(&mut self, status: i32, text: String) -> Vec<Action> {
        self.phase = Phase::Ended;
        vec![Action::Close, Action::End(status, text)]
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
