//! Modules and runtimes as shown by runners, functions of jobs and events.

use super::{KeptModule, KeptRuntime};
use crate::wire::{Json, RuntimeState, State};
use halite_wire::{Map, Value};

/// JSON as a value; as its text if a value cannot represent it.
pub fn json_value(json: &Json) -> Value {
    serde_json::from_value(json.clone()).unwrap_or_else(|_| json.to_string().into())
}

/// The name of a module's state.
pub fn state_word(state: State) -> &'static str {
    match state {
        State::Alive => "alive",
        State::Dead => "dead",
        State::Exiting => "exiting",
        State::Killed => "killed",
        State::Queued => "queued",
    }
}

impl KeptModule {
    /// The module in short, for lists and events. Without arguments and environment, which may contain secrets.
    /// `runtime` is the one that it is placed on.
    pub fn brief(&self, runtime: Option<&KeptRuntime>) -> Map {
        let module = &self.module;
        halite_wire::map! {
            "uuid" => module.uuid.as_str(), "name" => module.name.as_str(), "state" => state_word(module.state),
            "runtime" => module.runtime.as_ref().map_or(Value::Nil, |uuid| uuid.as_str().into()),
            "id" => runtime.map_or(Value::Nil, |runtime| runtime.id.as_str().into()),
            "file" => module.file.as_str(), "index" => module.index, "policy" => module.policy.word(),
            "scheduled" => module.scheduled, "foreign" => self.foreign, "created" => self.created,
        }
    }

    /// The module in short, and its channels: the return of jobs that start it. Returns become events, so what
    /// [`KeptModule::brief`] leaves out is left out here too.
    pub fn started(&self, runtime: Option<&KeptRuntime>) -> Map {
        let mut out = self.brief(runtime);
        out.set("channels", self.channels());
        out
    }

    fn channels(&self) -> Vec<Value> {
        let channels = self.module.channels.iter().map(|channel| {
            Value::Map(halite_wire::map! {
                "path" => channel.path.as_str(), "mode" => channel.mode.word(), "topic" => channel.topic.as_str(),
            })
        });
        channels.collect()
    }

    /// Everything known about the module.
    pub fn full(&self, runtime: Option<&KeptRuntime>) -> Map {
        let module = &self.module;
        let mut out = self.started(runtime);
        out.set("apis", module.apis.clone());
        out.set("argv", module.argv.clone());
        out.set("env", module.env.clone());
        out.set("args", json_value(&Json::Object(module.args.clone())));
        if let Some(filetype) = &module.filetype {
            out.set("filetype", filetype.as_str());
        }
        out
    }
}

impl KeptRuntime {
    /// The runtime with what this master knows about it; without `platform` and `metadata`, which are in its grains.
    pub fn summary(&self) -> Map {
        let runtime = &self.runtime;
        halite_wire::map! {
            "id" => self.id.as_str(), "uuid" => runtime.uuid.as_str(), "name" => runtime.name.as_str(),
            "state" => match runtime.state {
                RuntimeState::Alive => "alive",
                RuntimeState::Dead => "dead",
            },
            "runtime_type" => runtime.kind.as_str(), "apis" => runtime.apis.clone(),
            "max_nmodules" => runtime.max_modules, "keepalive" => runtime.keepalive,
            "manager" => runtime.manager.as_ref().map_or(Value::Nil, |uuid| uuid.as_str().into()),
            "heard" => self.heard, "memory" => self.memory,
        }
    }
}
