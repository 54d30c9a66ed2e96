//! SimpleRPC bodies (reference, section 11).

use super::{AgentName, CallerId, Form, Refused};
use crate::ruby::{Datum, json};
use std::fmt;

/// A SimpleRPC request: the body of a [`Request`](super::Request).
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRequest {
    /// The agent, as in the envelope.
    pub agent: AgentName,
    /// The action to run.
    pub action: String,
    /// The caller id. Not authenticated; use that of the envelope.
    pub caller: Option<CallerId>,
    /// The inputs: a hash without `process_results`, its keys symbols or strings.
    pub data: Datum,
    /// Whether the caller waits for a reply; the default is true.
    pub process_results: bool,
    /// Whether `process_results` is in the data at all. Ruby's clients omit it in batches.
    pub says_process_results: bool,
}

/// Longest name of an action.
const LONGEST: usize = 255;

fn malformed(what: &str) -> Refused {
    Refused::Malformed(format!("as SimpleRPC, {what}"))
}

fn text(body: &Datum, key: &str) -> Result<String, Refused> {
    let text = body.get(key).and_then(Datum::as_str).map(str::to_owned);
    text.ok_or_else(|| malformed(&format!("it has no {key}")))
}

/// Letters, digits and `_`, as in names of Ruby methods and Go actions.
fn is_action(name: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(word)
}

impl RpcRequest {
    /// A request that wants replies.
    pub fn new(agent: AgentName, action: &str, caller: CallerId, data: Datum) -> Self {
        RpcRequest {
            agent,
            action: action.to_owned(),
            caller: Some(caller),
            data,
            process_results: true,
            says_process_results: true,
        }
    }

    /// Reads a body, its keys symbols or strings.
    ///
    /// # Errors
    /// It is not a hash with an agent, an action and data.
    pub fn read(body: &Datum) -> Result<RpcRequest, Refused> {
        let action = text(body, "action")?;
        if !is_action(&action) {
            return Err(malformed("its action is not a name"));
        }
        let caller = body.get("caller").and_then(Datum::as_str);
        let (data, flag) = match unpacked(body.get("data")) {
            Datum::Hash(mut pairs) => {
                let is_flag = |key: &Datum| key.as_str() == Some("process_results");
                let at = pairs.iter().position(|(key, _)| is_flag(key));
                let flag = at.map(|at| pairs.remove(at).1);
                (Datum::Hash(pairs), flag)
            }
            Datum::Nil => (Datum::Hash(Vec::new()), None),
            _ => return Err(malformed("its data is not a hash")),
        };
        Ok(RpcRequest {
            agent: text(body, "agent")?.parse()?,
            action,
            caller: caller.map(str::parse).transpose()?,
            data,
            // Everything that is true in Ruby.
            process_results: !matches!(flag, Some(Datum::Bool(false) | Datum::Nil)),
            says_process_results: flag.is_some(),
        })
    }

    /// The body for messages of a form.
    pub fn write(&self, form: Form) -> Datum {
        let mut data = keyed(&self.data, form);
        if let (Datum::Hash(pairs), true) = (&mut data, self.says_process_results) {
            let flag = Datum::Bool(self.process_results);
            pairs.push((key("process_results", form), flag));
        }
        let caller = match &self.caller {
            Some(caller) => caller.as_str().into(),
            None => Datum::Nil,
        };
        Datum::Hash(vec![
            (key("agent", form), self.agent.as_str().into()),
            (key("action", form), Datum::Str(self.action.clone())),
            (key("caller", form), caller),
            (key("data", form), data),
        ])
    }

    /// An input.
    pub fn input(&self, name: &str) -> Option<&Datum> {
        self.data.get(name)
    }
}

/// The result of an action: `statuscode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// 0: success.
    Ok,
    /// 1: the action failed, or the caller may not run it.
    Aborted,
    /// 2: the agent has no such action.
    UnknownAction,
    /// 3: an input is missing.
    MissingData,
    /// 4: an input is invalid.
    InvalidData,
    /// 5: anything else, such as an exception of Ruby.
    UnknownError,
    /// An unknown code.
    Other(i64),
}

impl Status {
    /// The status of a code.
    pub fn of(code: i64) -> Status {
        match code {
            0 => Status::Ok,
            1 => Status::Aborted,
            2 => Status::UnknownAction,
            3 => Status::MissingData,
            4 => Status::InvalidData,
            5 => Status::UnknownError,
            other => Status::Other(other),
        }
    }

    /// Its code.
    pub fn code(self) -> i64 {
        match self {
            Status::Ok => 0,
            Status::Aborted => 1,
            Status::UnknownAction => 2,
            Status::MissingData => 3,
            Status::InvalidData => 4,
            Status::UnknownError => 5,
            Status::Other(code) => code,
        }
    }

    /// Whether the data of the reply are meaningful.
    pub fn has_data(self) -> bool {
        matches!(self, Status::Ok | Status::Aborted)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "it went well",
            Status::Aborted => "the action failed",
            Status::UnknownAction => "the agent has no such action",
            Status::MissingData => "an input is missing",
            Status::InvalidData => "an input is wrong",
            Status::UnknownError => "an error that the agent does not know",
            Status::Other(code) => return write!(f, "status {code}, which has no meaning"),
        })
    }
}

/// A SimpleRPC reply: the body of a [`Reply`](super::Reply).
#[derive(Clone, Debug, PartialEq)]
pub struct RpcReply {
    /// `statuscode`.
    pub status: Status,
    /// `statusmsg`: `OK`, or what went wrong.
    pub message: String,
    /// The outputs: a hash, its keys symbols or strings.
    pub data: Datum,
    /// `action`, added by Go.
    pub action: Option<String>,
}

impl RpcReply {
    /// The reply of a successful action.
    pub fn ok(data: Datum) -> RpcReply {
        RpcReply {
            status: Status::Ok,
            message: "OK".to_owned(),
            data,
            action: None,
        }
    }

    /// The reply of a failed action.
    pub fn failed(status: Status, message: impl Into<String>) -> RpcReply {
        RpcReply {
            status,
            message: message.into(),
            data: Datum::Hash(Vec::new()),
            action: None,
        }
    }

    /// Reads a body, its keys symbols or strings. If the data is text that contains a JSON object, as Go writes empty data,
    /// it is replaced by that object.
    ///
    /// # Errors
    /// It is not a hash with a status code.
    pub fn read(body: &Datum) -> Result<RpcReply, Refused> {
        let code = body.get("statuscode").and_then(Datum::as_int);
        let code = code.ok_or_else(|| malformed("it has no statuscode"))?;
        let message = body.get("statusmsg").and_then(Datum::as_str);
        let action = body.get("action").and_then(Datum::as_str);
        Ok(RpcReply {
            status: Status::of(code),
            message: message.unwrap_or_default().to_owned(),
            data: match unpacked(body.get("data")) {
                Datum::Nil => Datum::Hash(Vec::new()),
                data => data,
            },
            action: action.map(str::to_owned),
        })
    }

    /// The body for messages of a form.
    pub fn write(&self, form: Form) -> Datum {
        let mut pairs = vec![
            (
                key("statuscode", form),
                Datum::Int(self.status.code().into()),
            ),
            (key("statusmsg", form), Datum::Str(self.message.clone())),
            (key("data", form), keyed(&self.data, form)),
        ];
        if let Some(action) = &self.action {
            pairs.insert(0, (key("action", form), Datum::Str(action.clone())));
        }
        Datum::Hash(pairs)
    }
}

fn key(name: &str, form: Form) -> Datum {
    if form.symbols() {
        Datum::symbol(name)
    } else {
        Datum::from(name)
    }
}

/// A hash whose keys are symbols if the form has them. Deeper levels are unchanged: names of facts, for instance, are always
/// text.
fn keyed(data: &Datum, form: Form) -> Datum {
    let Datum::Hash(pairs) = data else {
        return data.clone();
    };
    let pairs = pairs.iter().map(|(name, value)| {
        let name = match name {
            Datum::Str(name) | Datum::Symbol(name) => key(name, form),
            other => other.clone(),
        };
        (name, value.clone())
    });
    Datum::Hash(pairs.collect())
}

/// The data, or the JSON object in it if it is text.
fn unpacked(data: Option<&Datum>) -> Datum {
    let Some(data) = data else {
        return Datum::Nil;
    };
    let object = match data {
        Datum::Str(text) if text.starts_with('{') => json::read(text.as_bytes()).ok(),
        _ => None,
    };
    object.unwrap_or_else(|| data.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Serializer;
    use crate::wire::choria::{SecureReply, SecureRequest, read_reply, read_request};
    use crate::wire::core::{CoreReply, CoreRequest, load};
    use crate::wire::testing::{base64_bytes, captures};

    fn hash(pairs: &[(&str, Datum)]) -> Datum {
        let pairs = pairs.iter().map(|(k, v)| (Datum::from(*k), v.clone()));
        Datum::Hash(pairs.collect())
    }

    /// Bodies of the captured messages that are hashes, each with its form.
    fn bodies(requests: bool) -> Vec<(Datum, Form)> {
        let mut out = Vec::new();
        for message in captures("choria-psk-rabbitmq")["messages"]
            .as_array()
            .unwrap()
        {
            let data = base64_bytes(&message["marshal_base64"]);
            let body = match (requests, message["kind"] == "reply") {
                (true, false) => CoreRequest::read(&data).unwrap().body,
                (false, true) => CoreReply::read(&data).unwrap().body,
                _ => continue,
            };
            out.push((load(&body, Serializer::Marshal).unwrap(), Form::Psk));
        }
        for file in ["choria-seed-generation-nats", "choria-v1-json-nats"] {
            for message in captures(file)["messages"].as_array().unwrap() {
                let data = base64_bytes(&message["transport"]["data"]);
                if let (true, Ok(secure)) = (requests, SecureRequest::read(&data)) {
                    let (request, form) = read_request(&secure.message, secure.generation).unwrap();
                    out.push((request.body, form));
                }
                if let (false, Ok(secure)) = (requests, SecureReply::read(&data)) {
                    let (reply, form) = read_reply(&secure.message, secure.generation).unwrap();
                    out.push((reply.body, form));
                }
            }
        }
        out.retain(|(body, _)| matches!(body, Datum::Hash(_)));
        out
    }

    #[test]
    fn captured_bodies_are_read_and_written_again() {
        let requests = bodies(true);
        assert!(requests.len() > 15, "{}", requests.len());
        for (body, form) in requests {
            let request = RpcRequest::read(&body).unwrap();
            assert_eq!(request.agent.as_str(), "rpcutil");
            assert!(request.process_results && request.says_process_results);
            assert_eq!(request.write(form), body);
        }
        let replies = bodies(false);
        assert!(replies.len() > 12, "{}", replies.len());
        for (body, form) in replies {
            let reply = RpcReply::read(&body).unwrap();
            assert_eq!(reply.status == Status::Ok, reply.message == "OK");
            assert_eq!(reply.write(form), body);
        }
    }

    #[test]
    fn who_does_not_say_waits_for_a_reply() {
        let read = |data: Datum| {
            let pairs = [
                ("agent", "a".into()),
                ("action", "b".into()),
                ("data", data),
            ];
            RpcRequest::read(&hash(&pairs))
        };
        let empty = hash(&[]);
        let request = read(empty.clone()).unwrap();
        assert!(request.process_results && !request.says_process_results);
        assert_eq!(
            (request.data.clone(), request.caller.clone()),
            (empty.clone(), None)
        );
        let written = request.write(Form::CHORIA);
        assert_eq!(written.get("data"), Some(&empty));
        assert_eq!(RpcRequest::read(&written), Ok(request));
        let no = read(hash(&[
            ("x", Datum::Int(1)),
            ("process_results", Datum::Bool(false)),
        ]));
        let no = no.unwrap();
        assert!(!no.process_results && no.says_process_results);
        assert_eq!(no.input("x"), Some(&Datum::Int(1)));
        assert_eq!(no.input("process_results"), None);
        assert_eq!(read("{}".into()).unwrap().data, empty);
        assert_eq!(read(Datum::Nil).unwrap().data, empty);
        assert!(read("x".into()).is_err());
    }

    #[test]
    fn bad_bodies_are_refused() {
        let good = [
            ("agent", Datum::from("a")),
            ("action", "b".into()),
            ("caller", "uid=0".into()),
            ("data", hash(&[])),
        ];
        assert!(RpcRequest::read(&hash(&good)).is_ok());
        for (at, wrong) in [
            (0, Datum::Nil),
            (0, "a b".into()),
            (1, Datum::Int(1)),
            (1, "".into()),
            (1, "../x".into()),
            (1, "x".repeat(300).as_str().into()),
            (2, "root".into()),
            (3, Datum::Array(Vec::new())),
        ] {
            let mut bad = good.clone();
            bad[at].1 = wrong.clone();
            assert!(RpcRequest::read(&hash(&bad)).is_err(), "{at} {wrong:?}");
        }
        for bad in [
            Datum::Nil,
            "ping".into(),
            hash(&[("statusmsg", "OK".into())]),
        ] {
            assert!(RpcRequest::read(&bad).is_err());
            assert!(RpcReply::read(&bad).is_err());
        }
    }

    #[test]
    fn replies_of_go_are_read() {
        let body = hash(&[
            ("action", "ping".into()),
            ("statuscode", Datum::Int(5)),
            ("statusmsg", "no".into()),
            ("data", "{}".into()),
        ]);
        let reply = RpcReply::read(&body).unwrap();
        assert_eq!(reply.data, hash(&[]));
        assert_eq!(reply.action.as_deref(), Some("ping"));
        assert_eq!(reply.status, Status::UnknownError);
        assert!(!reply.status.has_data());
        let written = reply.write(Form::CHORIA);
        assert_eq!(RpcReply::read(&written), Ok(reply));
    }

    #[test]
    fn codes_have_names() {
        for code in -1..8 {
            let status = Status::of(code);
            assert_eq!(status.code(), code);
            let other = matches!(status, Status::Other(_));
            assert_eq!(other, !(0..=5).contains(&code));
            assert!(!status.to_string().is_empty());
        }
    }
}
