//! Writes messages as JSON, with the fields in the order that peers use (reference, section 9).

use super::{
    Answer, Body, Channel, Child, Dialect, ErrorReport, Json, Keepalive, Manager, Message,
    ModuleExit, ModuleRequest, Object, Parent, Runtime, Uuid,
};

/// Adds the fields that are not present yet.
pub(super) fn add(out: &mut Object, more: &Object) {
    for (key, value) in more {
        out.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// A list of strings.
pub(super) fn list(texts: &[String]) -> Json {
    texts.iter().map(String::as_str).collect()
}

/// `args`: a list with `env` beside it, or an object. A list has no place for other keys.
pub(super) fn call(out: &mut Object, argv: &[String], env: &[String], rest: &Object, listed: bool) {
    if listed && rest.is_empty() {
        out.insert("args".into(), list(argv));
        if !env.is_empty() {
            out.insert("env".into(), list(env));
        }
        return;
    }
    let mut args = Object::new();
    args.insert("argv".into(), list(argv));
    args.insert("env".into(), list(env));
    add(&mut args, rest);
    out.insert("args".into(), args.into());
}

/// `channels`.
pub(super) fn channels(channels: &[Channel]) -> Json {
    channels.iter().map(Channel::to_json).collect()
}

impl Message {
    /// The message as JSON, in the words and field order of its dialect.
    pub fn to_json(&self) -> Vec<u8> {
        let answers = matches!(self.body, Body::Answer(_) | Body::Error(_));
        let kind = match (self.dialect, answers) {
            (Dialect::Draft, false) => "req",
            (Dialect::Draft, true) => "resp",
            (Dialect::Older, false) => "arts_req",
            (Dialect::Older, true) => "arts_resp",
        };
        let (action, data) = self.body.parts(self.dialect);
        let mut out = Object::new();
        out.insert("object_id".into(), self.object_id.as_str().into());
        if let Some(action) = action {
            out.insert("action".into(), action.into());
        }
        out.insert("type".into(), kind.into());
        if let Some(from) = &self.from {
            out.insert("from".into(), from.as_str().into());
        }
        out.insert("data".into(), data.into());
        Json::Object(out).to_string().into_bytes()
    }
}

impl Body {
    /// `action` and `data`.
    fn parts(&self, dialect: Dialect) -> (Option<&str>, Object) {
        let request = |action, data| (Some(action), data);
        match self {
            Body::Register(runtime) => request("create", register(runtime)),
            Body::Unregister(uuid, name) => request("delete", gone("runtime", uuid, name)),
            Body::RegisterManager(manager) => request("create", register_manager(manager)),
            Body::UnregisterManager(uuid, name) => request("delete", gone("manager", uuid, name)),
            Body::Keepalive(keepalive) => request("update", alive(keepalive)),
            Body::Create(module) => request("create", create(module, dialect)),
            Body::CreateBatch(parent, modules) => {
                request("create_batch", batch(parent, modules, dialect))
            }
            Body::Delete(module, parent) => request("delete", delete(module, parent)),
            Body::Exited(exit) => request("exited", exited(exit)),
            Body::Answer(Answer { action, data, .. }) => (action.as_deref(), data.clone()),
            Body::Error(report) => request("error", error(report)),
        }
    }
}

fn of_type(kind: &str) -> Object {
    let mut out = Object::new();
    out.insert("type".into(), kind.into());
    out
}

fn register(runtime: &Runtime) -> Object {
    let mut out = of_type("runtime");
    out.insert("uuid".into(), runtime.uuid.as_str().into());
    out.insert("name".into(), runtime.name.as_str().into());
    out.insert("runtime_type".into(), runtime.kind.as_str().into());
    out.insert("max_nmodules".into(), runtime.max_modules.into());
    out.insert("apis".into(), list(&runtime.apis));
    for (key, value) in [
        ("platform", &runtime.platform),
        ("metadata", &runtime.metadata),
    ] {
        if !value.is_null() {
            out.insert(key.into(), value.clone());
        }
    }
    if let Some(manager) = &runtime.manager {
        out.insert("parent".into(), manager.as_str().into());
    }
    add(&mut out, &runtime.extra);
    out
}

fn register_manager(manager: &Manager) -> Object {
    gone("manager", &manager.uuid, &Some(manager.name.clone()))
}

/// `type`, `uuid` and `name`, as in registrations of managers and all deletions.
fn gone(kind: &str, uuid: &Uuid, name: &Option<String>) -> Object {
    let mut out = of_type(kind);
    out.insert("uuid".into(), uuid.as_str().into());
    if let Some(name) = name {
        out.insert("name".into(), name.as_str().into());
    }
    out
}

fn alive(keepalive: &Keepalive) -> Object {
    let mut out = gone("runtime", &keepalive.uuid, &keepalive.name);
    if let Some(apis) = &keepalive.apis {
        out.insert("apis".into(), list(apis));
    }
    if let Some(children) = &keepalive.children {
        out.insert("children".into(), children.iter().map(child).collect());
    }
    add(&mut out, &keepalive.extra);
    out
}

fn child(child: &Child) -> Json {
    let mut out = Object::new();
    out.insert("uuid".into(), child.uuid.as_str().into());
    let active = child.active.as_deref();
    out.insert("active".into(), active.map_or(Json::from(-1), Json::from));
    out.insert("cpu_usage_percent".into(), child.cpu_percent.into());
    out.insert("mem_usage".into(), child.memory.into());
    add(&mut out, &child.extra);
    out.into()
}

/// `data` of a create. One with an index comes from an orchestrator, and says that the module is alive.
fn create(module: &ModuleRequest, dialect: Dialect) -> Object {
    let mut out = of_type("module");
    let older = dialect == Dialect::Older;
    if let Some(index) = module.index.filter(|_| !older) {
        out.insert("index".into(), index.into());
    }
    if let Some(uuid) = &module.uuid {
        out.insert("uuid".into(), uuid.as_str().into());
    }
    out.insert("name".into(), module.name.as_str().into());
    if let Some(Parent(parent)) = &module.parent {
        out.insert("parent".into(), parent.as_str().into());
    }
    let file = if older { "filename" } else { "file" };
    out.insert(file.into(), module.file.as_str().into());
    if let Some(filetype) = &module.filetype {
        out.insert("filetype".into(), filetype.as_str().into());
    }
    out.insert("apis".into(), list(&module.apis));
    // The older dialect has a list of arguments (reference, T16).
    let listed = older || module.listed;
    call(&mut out, &module.argv, &module.env, &module.args, listed);
    if older && module.args.is_empty() {
        out.entry("env").or_insert_with(|| list(&[]));
    }
    out.insert("channels".into(), channels(&module.channels));
    if let Some(policy) = module.policy {
        out.insert("policy".into(), policy.word().into());
    }
    if module.index.is_some() {
        out.insert("status".into(), "A".into());
    }
    add(&mut out, &module.extra);
    out
}

fn batch(parent: &Parent, modules: &[ModuleRequest], dialect: Dialect) -> Object {
    let mut out = Object::new();
    out.insert("parent".into(), parent.0.as_str().into());
    let modules = modules
        .iter()
        .map(|module| Json::Object(create(module, dialect)));
    out.insert("modules".into(), modules.collect());
    out
}

fn delete(module: &str, parent: &Option<Parent>) -> Object {
    let mut out = of_type("module");
    out.insert("uuid".into(), module.into());
    if let Some(Parent(parent)) = parent {
        out.insert("parent".into(), parent.as_str().into());
    }
    out
}

fn exited(exit: &ModuleExit) -> Object {
    let mut out = of_type("module");
    out.insert("uuid".into(), exit.uuid.as_str().into());
    out.insert("status".into(), exit.status.word().into());
    if let Some(code) = exit.code {
        out.insert("exit_code".into(), code.into());
    }
    if let Some(reason) = &exit.reason {
        out.insert("reason".into(), reason.as_str().into());
    }
    add(&mut out, &exit.extra);
    out
}

fn error(report: &ErrorReport) -> Object {
    let mut out = Object::new();
    out.insert("desc".into(), report.desc.as_str().into());
    out.insert("data".into(), report.data.clone());
    if let Some(request) = &report.request {
        out.insert("request".into(), request.as_str().into());
    }
    out
}
