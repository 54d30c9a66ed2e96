//! Modules: requested, running, ended (reference, sections 4.4 and 4.5).

use super::{Act, Launch, Session};
use crate::choice::offers;
use crate::mqtt::Publication;
use crate::runtime::engine::{End, Spec};
use crate::wire::{
    Answer, Body, Dialect, ExitStatus, Fault, Json, Message, ModuleExit, ModuleRequest, Object,
    Place, Trouble, Uuid,
};
use std::time::{Duration, Instant};

/// Id and dialect of a request, for the answer.
pub(super) type Asked = (String, Dialect);

/// Requests for one module that are remembered and answered when it runs.
const REQUESTS: usize = 4;
/// Longest reason reported, in characters.
const MAX_REASON: usize = 1000;

/// Why a module ended that had not started.
const NEVER_STARTED: &str = "deleted before it ran";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its file is being fetched, or it is being started.
    Launching,
    Running,
    Stopping,
}

/// A module that has not ended.
#[derive(Debug)]
pub(super) struct Module {
    /// The index of its runtime.
    pub runtime: usize,
    name: String,
    serial: u64,
    phase: Phase,
    asked: Vec<Asked>,
    /// The dialect of the request that started it, in which its exit is announced.
    dialect: Dialect,
    /// Whether it is stopped because its runtime shuts down, which is not announced.
    silent: bool,
    /// CPU time used at the last keepalive.
    pub cpu: Duration,
    /// When that was.
    pub since: Instant,
}

impl Module {
    /// Whether it has been started.
    pub fn runs(&self) -> bool {
        self.phase != Phase::Launching
    }

    /// Stops it because its runtime shuts down.
    pub fn stop(&mut self, uuid: &Uuid) -> Option<Act> {
        self.silent = true;
        self.halt(uuid)
    }

    fn halt(&mut self, uuid: &Uuid) -> Option<Act> {
        let before = std::mem::replace(&mut self.phase, Phase::Stopping);
        match before {
            Phase::Launching => Some(Act::Cancel(uuid.clone(), self.serial)),
            Phase::Running => Some(Act::Stop(uuid.clone())),
            Phase::Stopping => None,
        }
    }
}

impl Session {
    /// Handles a request for a module.
    pub(super) fn create(
        &mut self,
        at: usize,
        mut request: ModuleRequest,
        asked: Asked,
        now: Instant,
    ) -> Vec<Act> {
        let uuid = match request.uuid.take() {
            Some(uuid) => uuid,
            None => match (self.ids)().parse() {
                Ok(uuid) => uuid,
                Err(_) => return Vec::new(),
            },
        };
        if let Some(module) = self.modules.get_mut(&uuid) {
            // An orchestrator may repeat a request that we received directly, or not know that the module still runs
            // (reference, section 4.4).
            let why = match module.phase {
                _ if module.runtime != at => "it runs on another runtime of this manager",
                Phase::Stopping => "it is still ending",
                Phase::Running => return vec![self.accept(at, &asked, &uuid)],
                Phase::Launching => {
                    if module.asked.len() < REQUESTS {
                        module.asked.push(asked);
                    }
                    return Vec::new();
                }
            };
            let fault = Fault::new(Trouble::DuplicateModule, why);
            return vec![self.refusal(at, &asked, "create", Some(&uuid), &fault)];
        }
        match self.plan(at, &uuid, request, &asked) {
            Ok((name, launch)) => {
                let module = Module {
                    runtime: at,
                    name,
                    serial: launch.serial,
                    phase: Phase::Launching,
                    dialect: asked.1,
                    asked: vec![asked],
                    silent: false,
                    cpu: Duration::ZERO,
                    since: now,
                };
                self.modules.insert(uuid, module);
                vec![Act::Launch(Box::new(launch))]
            }
            Err(why) => {
                self.note_failure(&uuid, "is refused", &why);
                self.failed(at, &uuid, &[asked], &why)
            }
        }
    }

    /// Prepares a launch, if the runtime accepts the module.
    fn plan(
        &mut self,
        at: usize,
        uuid: &Uuid,
        request: ModuleRequest,
        asked: &Asked,
    ) -> Result<(String, Launch), String> {
        let Some(runtime) = self.runtimes.get(at) else {
            return Err("unknown runtime".to_owned());
        };
        let offer = &runtime.offer;
        if runtime.leaving {
            return Err("the runtime is shutting down".to_owned());
        }
        match request.filetype.as_deref() {
            None | Some("WA") => {}
            Some(other) => return Err(format!("no launcher for files of the type {other:?}")),
        }
        let lacks = |api: &&String| !is_wish(api) && !offers(&offer.apis, api);
        let missing: Vec<&str> = request
            .apis
            .iter()
            .filter(lacks)
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            return Err(format!("apis that are not offered: {}", missing.join(", ")));
        }
        if !request.channels.is_empty() && !offers(&offer.apis, "channels") {
            return Err("channels are not offered".to_owned());
        }
        for channel in &request.channels {
            if self.config.topics.is_reserved(channel.topic.as_str()) {
                let topic = &channel.topic;
                return Err(format!(
                    "the topic {topic} of a channel belongs to the orchestrator"
                ));
            }
        }
        let address = self.config.sources.read(&request.file)?;
        let most = usize::try_from(offer.max_modules).unwrap_or(usize::MAX);
        let own = self.modules.values().filter(|m| m.runtime == at).count();
        if most > 0 && own >= most {
            return Err(format!(
                "{own} modules are already running, which is the limit (max_nmodules)"
            ));
        }
        let homes = self.modules.values();
        let homes = homes.filter_map(|module| self.runtimes.get(module.runtime));
        let taken = homes.map(|runtime| runtime.offer.limits.memory);
        let taken = taken.fold(offer.limits.memory, u64::saturating_add);
        let all = self.config.memory;
        if all > 0 && taken > all {
            return Err(format!(
                "with it, modules could take {taken} bytes of memory, but only {all} are allowed (modules_memory)"
            ));
        }
        let mut argv = request.argv;
        // In the older dialect the list starts with the program's name (reference, T16).
        if asked.1 == Dialect::Older && argv.first() == Some(&request.file) {
            argv.remove(0);
        }
        self.serial += 1;
        let spec = Spec {
            uuid: uuid.clone(),
            code: Vec::new(),
            argv,
            program: address.program().to_owned(),
            env: request.env,
            channels: request.channels,
            stdin: request.apis.iter().any(|api| api == "stdio:in"),
            limits: offer.limits,
        };
        let launch = Launch {
            serial: self.serial,
            address,
            spec,
        };
        Ok((request.name, launch))
    }

    /// Handles a request to end a module: its uuid, or a name that only one module of this runtime has.
    pub(super) fn delete(&mut self, at: usize, module: &str, asked: &Asked) -> Vec<Act> {
        let own = self.modules.iter_mut().filter(|(_, m)| m.runtime == at);
        let mut fitting: Vec<_> = own
            .filter(|(uuid, m)| uuid.as_str() == module || m.name == module)
            .collect();
        if let Some(exact) = fitting.iter().position(|(uuid, _)| uuid.as_str() == module) {
            fitting.swap(0, exact);
            fitting.truncate(1);
        }
        let why = match fitting.as_mut_slice() {
            [(uuid, module)] => return module.halt(uuid).into_iter().collect(),
            [] => Trouble::UnknownModule,
            _ => Trouble::Ambiguous,
        };
        let uuid = module.parse().ok();
        vec![self.refusal(at, asked, "delete", uuid.as_ref(), &Fault::new(why, module))]
    }

    /// Handles the result of a launch: the module runs, or why it does not.
    pub fn launched(
        &mut self,
        uuid: &Uuid,
        serial: u64,
        how: Result<(), String>,
        now: Instant,
    ) -> Vec<Act> {
        let fits = |module: &&mut Module| module.serial == serial;
        let Some(module) = self.modules.get_mut(uuid).filter(fits) else {
            // It ended before this was reported.
            return Vec::new();
        };
        match (how, module.phase) {
            (Ok(()), Phase::Launching) => {
                module.phase = Phase::Running;
                module.since = now;
                self.confirm(uuid)
            }
            (Ok(()), Phase::Stopping) => vec![Act::Stop(uuid.clone())],
            (Ok(()), Phase::Running) => Vec::new(),
            (Err(_), Phase::Stopping) => {
                let end = End {
                    status: ExitStatus::Deleted,
                    code: None,
                    reason: NEVER_STARTED.to_owned(),
                };
                self.ended(uuid, &end, now)
            }
            (Err(why), _) => {
                let (at, asked) = (module.runtime, std::mem::take(&mut module.asked));
                self.note_failure(uuid, "cannot be started", &why);
                self.modules.remove(uuid);
                self.failed(at, uuid, &asked, &why)
            }
        }
    }

    /// Handles the end of a module.
    pub fn ended(&mut self, uuid: &Uuid, end: &End, now: Instant) -> Vec<Act> {
        let Some(mut module) = self.modules.remove(uuid) else {
            return Vec::new();
        };
        let asked = std::mem::take(&mut module.asked);
        let mut acts = match module.phase {
            // It ended before we were told that it runs.
            Phase::Launching | Phase::Running => self.accept_all(module.runtime, uuid, &asked),
            Phase::Stopping => self.refuse_all(module.runtime, uuid, &asked, NEVER_STARTED),
        };
        let code = end.code.map(|code| format!(", status {code}"));
        let reason = Some(&end.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(": {reason}"));
        let (code, reason) = (code.unwrap_or_default(), reason.unwrap_or_default());
        log::info!(
            "the module {uuid} has ended: {}{code}{reason}",
            end.status.word()
        );
        if !(module.silent && end.status == ExitStatus::Deleted) {
            acts.push(self.exit(module.runtime, uuid, end, module.dialect));
        }
        acts.extend(self.finish(now));
        acts
    }

    /// Logs that a module does not run; a flood is logged a few times, not a million.
    fn note_failure(&mut self, uuid: &Uuid, what: &str, why: &str) {
        self.failures += 1;
        let count = self.failures;
        if count.is_power_of_two() {
            let why = short(why);
            log::warn!("the module {uuid} {what}: {why} (failure {count} of this kind)");
        } else {
            log::debug!("the module {uuid} {what}: {}", short(why));
        }
    }

    /// Answers the requests for a module that has been started.
    fn confirm(&mut self, uuid: &Uuid) -> Vec<Act> {
        let Some(module) = self.modules.get_mut(uuid) else {
            return Vec::new();
        };
        let (at, asked) = (module.runtime, std::mem::take(&mut module.asked));
        self.accept_all(at, uuid, &asked)
    }

    fn accept_all(&self, at: usize, uuid: &Uuid, asked: &[Asked]) -> Vec<Act> {
        asked
            .iter()
            .map(|asked| self.accept(at, asked, uuid))
            .collect()
    }

    /// Reports that a requested module does not run. The answers come first: an orchestrator that may choose another
    /// runtime does so then, and must not take the exit for that of the module there. One that ignores answers frees
    /// the place by the exit.
    fn failed(&mut self, at: usize, uuid: &Uuid, asked: &[Asked], why: &str) -> Vec<Act> {
        let mut acts = self.refuse_all(at, uuid, asked, why);
        let end = End {
            status: ExitStatus::Crashed,
            code: None,
            reason: why.to_owned(),
        };
        let dialect = asked
            .first()
            .map_or(Dialect::Draft, |(_, dialect)| *dialect);
        acts.push(self.exit(at, uuid, &end, dialect));
        acts
    }

    fn refuse_all(&self, at: usize, uuid: &Uuid, asked: &[Asked], why: &str) -> Vec<Act> {
        let fault = Fault::new(Trouble::Refused, short(why));
        let refuse = |asked| self.refusal(at, asked, "create", Some(uuid), &fault);
        asked.iter().map(refuse).collect()
    }

    /// The notice that a module has ended (reference, section 4.5).
    fn exit(&mut self, at: usize, uuid: &Uuid, end: &End, dialect: Dialect) -> Act {
        let runtime = self.runtimes.get(at).map(|r| r.offer.who.uuid.clone());
        let mut extra = Object::new();
        if let Some(runtime) = &runtime {
            extra.insert("parent".to_owned(), runtime.as_str().into());
        }
        let body = Body::Exited(ModuleExit {
            uuid: uuid.clone(),
            status: end.status,
            code: end.code.map(i64::from),
            reason: Some(short(&end.reason)).filter(|reason| !reason.is_empty()),
            extra,
        });
        let place = Place::Control(None);
        Act::Publish(self.publication(place, dialect, body, runtime.as_ref()))
    }

    fn accept(&self, at: usize, asked: &Asked, uuid: &Uuid) -> Act {
        Act::Publish(self.answer(at, asked, Answer::taken("create", uuid)))
    }

    /// The answer that refuses a request, with the reason.
    pub(super) fn refusal(
        &self,
        at: usize,
        asked: &Asked,
        action: &str,
        uuid: Option<&Uuid>,
        fault: &Fault,
    ) -> Act {
        let mut answer = fault.answer();
        answer.action = Some(action.to_owned());
        if let (Some(uuid), Some(Json::Object(details))) = (uuid, answer.data.get_mut("details")) {
            details.insert("uuid".to_owned(), uuid.as_str().into());
        }
        Act::Publish(self.answer(at, asked, answer))
    }

    fn answer(&self, at: usize, asked: &Asked, answer: Answer) -> Publication {
        let runtime = self.runtimes.get(at).map(|r| r.offer.who.uuid.clone());
        let mut message = Message::new(asked.0.clone(), asked.1, Body::Answer(answer));
        message.from = runtime.as_ref().map(Uuid::to_string);
        self.post(&Place::Control(runtime), &message)
    }
}

/// Apis that only ask for something to be recorded and are not needed to run, such as `profile:deployed` (reference,
/// section 6).
fn is_wish(api: &str) -> bool {
    api.starts_with("profile:")
}

fn short(text: &str) -> String {
    text.chars().take(MAX_REASON).collect()
}
