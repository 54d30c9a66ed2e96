//! Requests for modules: parsed from `data` of a `create`, and made from a placed module.

use super::bytes::MAX_MODULE;
use super::channel::MAX_CHANNELS;
use super::fields::{Fields, LONG, Read, SHORT, fault, scalar, text};
use super::{
    Channel, DEFAULT_APIS, Fault, Json, Module, ModuleRequest, Object, Parent, Policy, Trouble,
};

/// Limit of apis per module or runtime.
const MAX_APIS: usize = 128;
/// Limit of their total size, in bytes.
const MAX_API_BYTES: usize = 8 << 10;
/// Limit of arguments per module.
const MAX_ARGV: usize = 1024;
/// Limit of environment variables per module.
const MAX_ENV: usize = 1024;

impl ModuleRequest {
    /// Parses `data` of a `create`, or an entry of `create_batch`. Only `file` is required.
    ///
    /// # Errors
    /// A field is missing, mistyped or too large; the path in the fault starts with `data`.
    pub fn from_json(data: Json) -> Result<ModuleRequest, Box<Fault>> {
        ModuleRequest::read(data, "data")
    }

    /// Parses the request at this path.
    pub(super) fn read(data: Json, at: &str) -> Read<ModuleRequest> {
        let mut fields = Fields::new(data, at)?;
        // Fields of records, which a request cannot set.
        for own in ["type", "status", "scheduled"] {
            fields.take(own);
        }
        let apis = apis(&mut fields)?.filter(|apis| !apis.is_empty());
        let mut call = Call::read(&mut fields)?;
        let policy = match fields.parsed("policy")? {
            Some(policy) => Some(policy),
            None => call.policy.take(),
        };
        let request = ModuleRequest {
            uuid: fields.parsed("uuid")?,
            name: fields
                .text("name", SHORT)?
                .unwrap_or_else(|| "module".into()),
            parent: parent(&mut fields)?,
            index: fields.whole("index")?,
            file: file(&mut fields)?,
            filetype: fields.text("filetype", SHORT)?,
            apis: apis.unwrap_or_else(default_apis),
            argv: call.argv,
            env: call.env,
            args: call.rest,
            listed: call.listed,
            channels: channels(&mut fields)?,
            policy,
            extra: fields.rest(),
        };
        if request.free_len() <= MAX_MODULE {
            Ok(request)
        } else {
            Err(fault(
                Trouble::TooMany,
                format!(
                    "{at}: {MAX_MODULE} bytes of arguments, variables, channels and other fields at most"
                ),
            ))
        }
    }
}

impl Module {
    /// The request sent to its runtime.
    pub fn request(&self) -> ModuleRequest {
        ModuleRequest {
            uuid: Some(self.uuid.clone()),
            name: self.name.clone(),
            parent: self.runtime.as_ref().map(|uuid| Parent(uuid.to_string())),
            index: Some(self.index),
            file: self.file.clone(),
            filetype: self.filetype.clone(),
            apis: self.apis.clone(),
            argv: self.argv.clone(),
            env: self.env.clone(),
            args: self.args.clone(),
            listed: self.listed,
            channels: self.channels.clone(),
            policy: None,
            extra: self.extra.clone(),
        }
    }
}

/// Whether runtimes of this kind take `args` as a list; `None` if they are not known to insist on either form. The
/// applauncher refuses an object, and the minimal runtimes crash on a list (reference, sections 4.4 and 8).
fn takes_list(kind: &str) -> Option<bool> {
    let kind = kind.split('/').next().unwrap_or_default();
    match kind {
        "containerized-modules" => Some(true),
        "linux" | "benchmarking" => Some(false),
        _ => None,
    }
}

impl ModuleRequest {
    /// Puts the arguments into the form that runtimes of this kind take; others get that of the request.
    pub fn suited_to(mut self, kind: &str) -> ModuleRequest {
        self.listed = takes_list(kind).unwrap_or(self.listed);
        if self.listed {
            // There is no place for them in a list.
            for (key, value) in std::mem::take(&mut self.args) {
                self.extra.entry(key).or_insert(value);
            }
        }
        self
    }
}

/// The apis of a module or runtime that names none.
pub(super) fn default_apis() -> Vec<String> {
    DEFAULT_APIS.map(String::from).to_vec()
}

/// `apis`: a list, or a string separated by spaces (older dialect). An empty one differs from a missing one.
pub(super) fn apis(fields: &mut Fields) -> Read<Option<Vec<String>>> {
    let at = fields.at("apis");
    let list = match fields.take("apis") {
        None => return Ok(None),
        Some(Json::String(words)) => words.split_whitespace().map(Json::from).collect(),
        Some(Json::Array(list)) => list,
        Some(_) => return Err(fault(Trouble::BadField, at)),
    };
    let apis = texts(list, MAX_APIS, &at, |v, at| text(v, usize::MAX, at))?;
    if apis.iter().map(String::len).sum::<usize>() <= MAX_API_BYTES {
        Ok(Some(apis))
    } else {
        let what = format!("{at}: {MAX_API_BYTES} bytes at most");
        Err(fault(Trouble::TooMany, what))
    }
}

fn texts(
    list: Vec<Json>,
    most: usize,
    at: &str,
    read: fn(Json, &str) -> Read<String>,
) -> Read<Vec<String>> {
    if list.len() > most {
        return Err(fault(Trouble::TooMany, format!("{at}: {most} at most")));
    }
    let entry = |(n, value)| read(value, &format!("{at}/{n}"));
    list.into_iter().enumerate().map(entry).collect()
}

/// `parent`: a uuid, a name, or an object with one of them.
pub(super) fn parent(fields: &mut Fields) -> Read<Option<Parent>> {
    let at = fields.at("parent");
    let named = match fields.take("parent") {
        Some(object @ Json::Object(_)) => {
            let mut object = Fields::new(object, at)?;
            match object.text("uuid", SHORT)? {
                Some(uuid) => Some(uuid),
                None => object.text("name", SHORT)?,
            }
        }
        Some(value) => Some(text(value, SHORT, &at)?),
        None => None,
    };
    Ok(named.map(Parent))
}

/// `file`, or `filename` of the older dialect.
pub(super) fn file(fields: &mut Fields) -> Read<String> {
    let file = fields.text("file", LONG)?;
    let older = fields.text("filename", LONG)?;
    let file = file.or(older).ok_or_else(|| fields.missing("file"))?;
    if file.contains('\0') {
        Err(fields.bad("file"))
    } else {
        Ok(file)
    }
}

/// `channels`.
pub(super) fn channels(fields: &mut Fields) -> Read<Vec<Channel>> {
    let channels = fields.each("channels", MAX_CHANNELS, Channel::read)?;
    Ok(channels.unwrap_or_default())
}

/// Arguments and environment of a module.
#[derive(Default)]
pub(super) struct Call {
    /// Arguments.
    pub(super) argv: Vec<String>,
    /// `NAME=value` each.
    pub(super) env: Vec<String>,
    /// `args.policy`.
    pub(super) policy: Option<Policy>,
    /// Other keys of `args`.
    pub(super) rest: Object,
    /// Whether `args` is a list.
    pub(super) listed: bool,
}

impl Call {
    /// Parses `args`, an object or a list of arguments, and `env` beside it. If both set a variable, `args` wins.
    pub(super) fn read(fields: &mut Fields) -> Read<Call> {
        let at = fields.at("args");
        let mut call = match fields.take("args") {
            None => Call::default(),
            Some(Json::Array(argv)) => Call {
                argv: texts(argv, MAX_ARGV, &at, argument)?,
                listed: true,
                ..Call::default()
            },
            Some(object) => {
                let mut args = Fields::new(object, at)?;
                let argv = args.each("argv", MAX_ARGV, argument)?;
                Call {
                    argv: argv.unwrap_or_default(),
                    env: env(&mut args)?,
                    policy: args.parsed("policy")?,
                    rest: args.rest(),
                    listed: false,
                }
            }
        };
        let name = |var: &str| var.split('=').next().unwrap_or_default().to_owned();
        let set: std::collections::HashSet<String> = call.env.iter().map(|v| name(v)).collect();
        let beside = env(fields)?.into_iter();
        call.env
            .extend(beside.filter(|var| !set.contains(&name(var))));
        // A record has one list, which could not be parsed again if it were longer.
        if call.env.len() <= MAX_ENV {
            Ok(call)
        } else {
            let what = format!("{}: {MAX_ENV} at most", fields.at("env"));
            Err(fault(Trouble::TooMany, what))
        }
    }
}

/// `env`: a list of `NAME=value`, or an object of names and values.
fn env(fields: &mut Fields) -> Read<Vec<String>> {
    let at = fields.at("env");
    let list = match fields.take("env") {
        None => Vec::new(),
        Some(Json::Array(list)) => list,
        Some(Json::Object(map)) => {
            let var = |(name, value): (String, Json)| {
                let value = match value {
                    Json::Null => String::new(),
                    value => argument(value, &format!("{at}/{name}"))?,
                };
                if name.contains('=') {
                    Err(fault(Trouble::BadField, at.clone()))
                } else {
                    Ok(Json::String(format!("{name}={value}")))
                }
            };
            map.into_iter().map(var).collect::<Read<_>>()?
        }
        Some(_) => return Err(fault(Trouble::BadField, at)),
    };
    texts(list, MAX_ENV, &at, |value, at| {
        let var = argument(value, at)?;
        match var.find('=') {
            Some(1..) => Ok(var),
            _ => Err(fault(Trouble::BadField, at)),
        }
    })
}

/// A string that can be passed to a program.
fn argument(value: Json, at: &str) -> Read<String> {
    let text = scalar(value, at)?;
    if text.contains('\0') {
        Err(fault(Trouble::BadField, at))
    } else {
        Ok(text)
    }
}
