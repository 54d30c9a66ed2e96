//! Parses messages from JSON, as liberally as the tables of the reference say.

use super::fields::{Fields, Read, SHORT, fault, json, text, whole};
use super::request;
use super::{
    Answer, Body, Child, Dialect, ErrorReport, ExitStatus, Fault, Json, Keepalive, MAX_MESSAGE,
    Manager, Message, ModuleExit, ModuleRequest, Object, Runtime, Trouble, Verdict,
};

/// Limit of modules per keepalive.
const MAX_CHILDREN: usize = 4096;
/// Limit of modules per `create_batch`.
const MAX_BATCH: usize = 256;
/// Characters of an unknown action or type that an error repeats.
const MAX_ECHOED: usize = 64;

impl Message {
    /// Parses a message. One pair of single quotes around it is allowed (reference, section 4).
    ///
    /// # Errors
    /// It is larger than [`MAX_MESSAGE`], not JSON, nested too deeply, or lacks what its action and type require.
    pub fn parse(payload: &[u8]) -> Result<Message, Box<Fault>> {
        if payload.len() > MAX_MESSAGE {
            let what = format!("bytes: {MAX_MESSAGE} at most");
            return Err(fault(Trouble::TooMany, what));
        }
        let value = json(unquoted(payload))?;
        let mut fields = Fields::new(value, "").map_err(|_| {
            let why = "a message is an object";
            fault(Trouble::NotJson, why)
        })?;
        let object_id = fields.text("object_id", SHORT)?;
        let object_id = object_id.ok_or_else(|| fields.missing("object_id"))?;
        let kind = fields.take("type");
        let dialect = match &kind {
            Some(Json::String(word)) if word.starts_with("arts_") => Dialect::Older,
            _ => Dialect::Draft,
        };
        let concern = |mut fault: Box<Fault>| {
            fault.request = Some(object_id.clone());
            fault.dialect = dialect;
            fault
        };
        let from = fields.text("from", SHORT).map_err(concern)?;
        let body = Body::read(fields, kind).map_err(concern)?;
        Ok(Message {
            object_id,
            dialect,
            from,
            body,
        })
    }
}

/// The payload without white space and one pair of single quotes around it.
fn unquoted(payload: &[u8]) -> &[u8] {
    let trimmed = payload.trim_ascii();
    let inner = trimmed
        .strip_prefix(b"'")
        .and_then(|rest| rest.strip_suffix(b"'"));
    inner.unwrap_or(trimmed)
}

impl Body {
    fn read(mut fields: Fields, kind: Option<Json>) -> Read<Body> {
        let kind = kind.ok_or_else(|| fields.missing("type"))?;
        let kind = text(kind, usize::MAX, "type")?;
        let action = fields.text("action", usize::MAX)?;
        let data = fields.take("data");
        let refused = |action: &str| {
            let echoed = |word: &str| Json::from(word.chars().take(MAX_ECHOED).collect::<String>());
            let pair = Json::from(vec![echoed(action), echoed(&kind)]);
            Box::new(Fault::new(Trouble::BadAction, pair))
        };
        match (kind.as_str(), action.as_deref()) {
            ("req" | "arts_req" | "resp" | "arts_resp", Some("error")) => {
                let data = data.ok_or_else(|| fields.missing("data"))?;
                ErrorReport::read(data).map(Body::Error)
            }
            ("req" | "arts_req", Some(action)) => {
                if !["create", "delete", "update", "exited", "create_batch"].contains(&action) {
                    return Err(refused(action));
                }
                let data = data.ok_or_else(|| fields.missing("data"))?;
                Body::request(action, data)?.ok_or_else(|| refused(action))
            }
            ("req" | "arts_req", None) => Err(fields.missing("action")),
            ("resp" | "arts_resp" | "orch_resp" | "runtime_resp", action) => {
                let action = action.map(|a| a.chars().take(MAX_ECHOED).collect());
                Answer::read(action, data).map(Body::Answer)
            }
            (_, action) => Err(refused(action.unwrap_or_default())),
        }
    }

    /// Parses a request; `None` if this action does not apply to the type of `data`.
    fn request(action: &str, data: Json) -> Read<Option<Body>> {
        if action == "create_batch" {
            return batch(data).map(Some);
        }
        let kind = match (data.get("type"), action) {
            (Some(Json::String(kind)), _) if !kind.is_empty() => kind.clone(),
            _ if !data.is_object() => return Err(fault(Trouble::BadField, "data")),
            // The older orchestrator does not require it here (reference, T16).
            (None | Some(Json::Null | Json::String(_)), "delete" | "exited") => "module".into(),
            (None | Some(Json::Null | Json::String(_)), _) => {
                return Err(fault(Trouble::MissingField, "data/type"));
            }
            (Some(_), _) => return Err(fault(Trouble::BadField, "data/type")),
        };
        match (action, kind.as_str()) {
            ("create", "runtime") => return registered(data).map(Some),
            ("create", "manager") => return manager(data).map(Some),
            ("create", "module") => {
                let module = ModuleRequest::from_json(data)?;
                return Ok(Some(Body::Create(Box::new(module))));
            }
            _ => {}
        }
        let mut fields = Fields::new(data, "data")?;
        fields.take("type");
        let body = match (action, kind.as_str()) {
            ("update", "runtime") => Body::Keepalive(Box::new(Keepalive::read(fields)?)),
            ("delete", "runtime") => {
                Body::Unregister(fields.required("uuid")?, fields.text("name", SHORT)?)
            }
            ("delete", "manager") => {
                Body::UnregisterManager(fields.required("uuid")?, fields.text("name", SHORT)?)
            }
            ("delete", "module") => {
                let (uuid, name) = (fields.text("uuid", SHORT)?, fields.text("name", SHORT)?);
                let module = uuid.or(name).ok_or_else(|| fields.missing("uuid"))?;
                Body::Delete(module, request::parent(&mut fields)?)
            }
            ("exited", "module") => Body::Exited(ModuleExit::read(fields)?),
            (_, "runtime" | "manager" | "module") => return Ok(None),
            _ => return Err(fields.bad("type")),
        };
        Ok(Some(body))
    }
}

/// A registration; the fields for state and interval are ignored, since only the orchestrator sets them.
fn registered(mut data: Json) -> Read<Body> {
    forget(&mut data, &["status", "ka_interval_sec"]);
    Ok(Body::Register(Box::new(Runtime::from_json(data)?)))
}

fn manager(mut data: Json) -> Read<Body> {
    forget(&mut data, &["status"]);
    Ok(Body::RegisterManager(Manager::from_json(data)?))
}

fn forget(data: &mut Json, keys: &[&str]) {
    if let Json::Object(map) = data {
        keys.iter().for_each(|key| drop(map.shift_remove(*key)));
    }
}

fn batch(data: Json) -> Read<Body> {
    let mut fields = Fields::new(data, "data")?;
    let parent = request::parent(&mut fields)?;
    let parent = parent.ok_or_else(|| fields.missing("parent"))?;
    let modules = fields.each("modules", MAX_BATCH, ModuleRequest::read)?;
    let modules = modules.ok_or_else(|| fields.missing("modules"))?;
    Ok(Body::CreateBatch(parent, modules))
}

/// A keepalive is the only sign of life that a runtime gives: whatever else is wrong in it, one that names its runtime
/// is never refused.
impl Keepalive {
    fn read(mut fields: Fields) -> Read<Keepalive> {
        let uuid = fields.required("uuid")?;
        let (mut children, mut partial) = (None, false);
        if let Some(Json::Array(list)) = fields.take("children") {
            let entries = list.len();
            let named: Vec<Child> = list
                .into_iter()
                .take(MAX_CHILDREN)
                .filter_map(Child::read)
                .collect();
            partial = named.len() < entries;
            children = Some(named);
        }
        Ok(Keepalive {
            uuid,
            name: fields.text("name", SHORT).unwrap_or_default(),
            apis: request::apis(&mut fields).unwrap_or_default(),
            children,
            partial,
            extra: fields.rest(),
        })
    }
}

impl Child {
    /// `None` if it names no module. Figures that cannot be read count as missing.
    fn read(value: Json) -> Option<Child> {
        let mut fields = Fields::new(value, "").ok()?;
        let uuid = fields.required("uuid").ok()?;
        // -1 means none; a time given as a number is kept as it is.
        let active = match fields.take("active") {
            Some(Json::Number(time)) if time.as_f64().is_some_and(|t| t >= 0.0) => {
                Some(time.to_string())
            }
            Some(time) => text(time, SHORT, "active").ok(),
            None => None,
        };
        let cpu = fields.take("cpu_usage_percent");
        // `mem_usage` is in bytes; some peers write a float.
        let memory = fields.take("mem_usage").map(|value| {
            let float = || value.as_f64().map(|bytes| bytes.max(0.0) as u64);
            whole(&value).or_else(float).unwrap_or(0)
        });
        Some(Child {
            uuid,
            active,
            cpu_percent: cpu.and_then(|value| value.as_f64()).unwrap_or(0.0).max(0.0),
            memory: memory.unwrap_or(0),
            extra: fields.rest(),
        })
    }
}

impl ModuleExit {
    fn read(mut fields: Fields) -> Read<ModuleExit> {
        let uuid = fields.required("uuid")?;
        let word = fields.text("status", SHORT)?;
        let told = fields.text("reason", usize::MAX)?;
        // A notice with an unknown status is still valid: the module has ended.
        let (status, reason) = match word.as_deref().map(str::parse) {
            None => (ExitStatus::Exited, told),
            Some(Ok(status)) => (status, told),
            Some(Err(_)) => (ExitStatus::Exited, told.or(word)),
        };
        let code = fields.take("exit_code");
        let code = code.map(|code| code.as_i64().ok_or_else(|| fields.bad("exit_code")));
        Ok(ModuleExit {
            uuid,
            status,
            code: code.transpose()?,
            reason,
            extra: fields.rest(),
        })
    }
}

impl Answer {
    fn read(action: Option<String>, data: Option<Json>) -> Read<Answer> {
        let data = match data {
            None => Object::new(),
            Some(Json::Object(data)) => data,
            Some(_) => return Err(fault(Trouble::BadField, "data")),
        };
        let verdict = match data.get("result") {
            None | Some(Json::Null) => Verdict::Ok,
            Some(Json::String(word)) if word.is_empty() || word.eq_ignore_ascii_case("ok") => {
                Verdict::Ok
            }
            Some(_) => Verdict::Error,
        };
        Ok(Answer {
            action,
            verdict,
            data,
        })
    }
}

impl ErrorReport {
    fn read(data: Json) -> Read<ErrorReport> {
        let mut fields = Fields::new(data, "data")?;
        Ok(ErrorReport {
            desc: fields.text("desc", usize::MAX)?.unwrap_or_default(),
            data: fields.take("data").unwrap_or_default(),
            request: fields.text("request", SHORT)?,
        })
    }
}
