//! Records in `details` of answers and in the store: parsing returns exactly what was written.

use super::bytes::MAX_RUNTIME;
use super::fields::{Fields, Read, SHORT, fault};
use super::request::{self, Call};
use super::write::{self, add, list};
use super::{
    Fault, Json, KEEPALIVE, Manager, Module, Object, Policy, Runtime, RuntimeState, State, Trouble,
};

impl Manager {
    /// Its record: `uuid`, `name`, `status` (reference, section 4.2).
    pub fn to_json(&self) -> Json {
        let mut out = Object::new();
        out.insert("uuid".into(), self.uuid.as_str().into());
        out.insert("name".into(), self.name.as_str().into());
        out.insert("status".into(), self.state.word().into());
        out.into()
    }

    /// Parses a record, or `data` of a registration: then it is alive.
    ///
    /// # Errors
    /// A field is missing, mistyped or too large.
    pub fn from_json(data: Json) -> Result<Manager, Box<Fault>> {
        let mut fields = Fields::new(data, "data")?;
        Ok(Manager {
            uuid: fields.required("uuid")?,
            name: fields
                .text("name", SHORT)?
                .unwrap_or_else(|| "manager".into()),
            state: fields.parsed("status")?.unwrap_or(RuntimeState::Alive),
        })
    }
}

impl Runtime {
    /// Its record, with the fields in the order of the real orchestrator (reference, T1).
    pub fn to_json(&self) -> Json {
        let mut out = Object::new();
        out.insert("uuid".into(), self.uuid.as_str().into());
        out.insert("name".into(), self.name.as_str().into());
        out.insert("runtime_type".into(), self.kind.as_str().into());
        out.insert("max_nmodules".into(), self.max_modules.into());
        out.insert("apis".into(), list(&self.apis));
        out.insert("platform".into(), self.platform.clone());
        out.insert("metadata".into(), self.metadata.clone());
        out.insert("ka_interval_sec".into(), self.keepalive.into());
        out.insert("status".into(), self.state.word().into());
        out.insert(
            "parent".into(),
            self.manager.as_ref().map(|m| m.as_str()).into(),
        );
        add(&mut out, &self.extra);
        out.into()
    }

    /// Parses a record, or `data` of a registration: then it is alive, and sends keepalives at the default interval.
    ///
    /// # Errors
    /// A field is missing, mistyped or too large.
    pub fn from_json(data: Json) -> Result<Runtime, Box<Fault>> {
        let mut fields = Fields::new(data, "data")?;
        fields.take("type");
        let most = fields.whole("max_nmodules")?.unwrap_or(0);
        let runtime = Runtime {
            uuid: fields.required("uuid")?,
            name: fields
                .text("name", SHORT)?
                .unwrap_or_else(|| "runtime".into()),
            kind: fields
                .text("runtime_type", SHORT)?
                .unwrap_or_else(|| "linux".into()),
            max_modules: u32::try_from(most).map_err(|_| fields.bad("max_nmodules"))?,
            apis: request::apis(&mut fields)?.unwrap_or_else(request::default_apis),
            platform: fields.take("platform").unwrap_or_default(),
            metadata: fields.take("metadata").unwrap_or_default(),
            keepalive: fields.whole("ka_interval_sec")?.unwrap_or(KEEPALIVE),
            manager: fields.parsed("parent")?,
            state: fields.parsed("status")?.unwrap_or(RuntimeState::Alive),
            extra: fields.rest(),
        };
        if runtime.free_len() <= MAX_RUNTIME {
            Ok(runtime)
        } else {
            Err(fault(
                Trouble::TooMany,
                format!("data: {MAX_RUNTIME} bytes of platform, metadata and other fields at most"),
            ))
        }
    }
}

impl Module {
    /// Its record: the request in the form sent to its runtime, with `policy`, `scheduled` and `status`.
    pub fn to_json(&self) -> Json {
        let mut out = Object::new();
        out.insert("type".into(), "module".into());
        out.insert("index".into(), self.index.into());
        out.insert("uuid".into(), self.uuid.as_str().into());
        out.insert("name".into(), self.name.as_str().into());
        out.insert(
            "parent".into(),
            self.runtime.as_ref().map(|r| r.as_str()).into(),
        );
        out.insert("file".into(), self.file.as_str().into());
        if let Some(filetype) = &self.filetype {
            out.insert("filetype".into(), filetype.as_str().into());
        }
        out.insert("apis".into(), list(&self.apis));
        write::call(&mut out, &self.argv, &self.env, &self.args, self.listed);
        out.insert("channels".into(), write::channels(&self.channels));
        out.insert("policy".into(), self.policy.word().into());
        out.insert("scheduled".into(), self.scheduled.into());
        out.insert("status".into(), self.state.word().into());
        add(&mut out, &self.extra);
        out.into()
    }

    /// Parses a record.
    ///
    /// # Errors
    /// A field is missing, mistyped or too large.
    pub fn from_json(data: Json) -> Result<Module, Box<Fault>> {
        let mut fields = Fields::new(data, "data")?;
        fields.take("type");
        let call = Call::read(&mut fields)?;
        Ok(Module {
            uuid: fields.required("uuid")?,
            name: fields
                .text("name", SHORT)?
                .unwrap_or_else(|| "module".into()),
            index: fields.whole("index")?.unwrap_or(0),
            runtime: fields.parsed("parent")?,
            scheduled: flag(&mut fields, "scheduled")?,
            file: request::file(&mut fields)?,
            filetype: fields.text("filetype", SHORT)?,
            apis: request::apis(&mut fields)?.unwrap_or_else(request::default_apis),
            argv: call.argv,
            env: call.env,
            args: call.rest,
            listed: call.listed,
            channels: request::channels(&mut fields)?,
            policy: fields.parsed("policy")?.unwrap_or(Policy::Wait),
            state: fields.parsed("status")?.unwrap_or(State::Alive),
            extra: fields.rest(),
        })
    }
}

fn flag(fields: &mut Fields, key: &'static str) -> Read<bool> {
    match fields.take(key) {
        None => Ok(false),
        Some(Json::Bool(flag)) => Ok(flag),
        Some(_) => Err(fields.bad(key)),
    }
}
