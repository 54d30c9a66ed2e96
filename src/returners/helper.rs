//! Databases through the program `halite-returner`, so that minions need no database clients.
//!
//! One process per request: the request on standard input, the reply on standard output, both in msgpack. Settings are
//! part of the request, so they appear in no argument list.

use super::{Opener, Question, Store, StoreError};
use halite_config::{Returner, Settings};
use halite_store::jobs::{JobUpdate, StoredReturn};
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value, map};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Name of the program.
pub const PROGRAM: &str = "halite-returner";
/// Maximum size of a request or reply in bytes.
const MAX_MESSAGE: u64 = 256 << 20;

/// A database accessed through `halite-returner`.
pub struct Helper {
    request: Map,
}

impl Helper {
    /// Does not start the program yet.
    pub fn new(opener: &Opener) -> Helper {
        let settings = &opener.settings;
        Helper {
            request: map! {
                "returner" => settings.returner().name(),
                "settings" => settings.resolved(),
                "id" => opener.id,
                "keep" => i64::try_from(opener.keep).unwrap_or(i64::MAX),
                "product" => opener.product,
            },
        }
    }

    fn ask(&self, what: &str, question: Value) -> Result<Value, StoreError> {
        let mut request = self.request.clone();
        request.set(what, question);
        let failed = |e: io::Error| StoreError::Away(format!("{PROGRAM}: {e}"));
        let reply = run(&msgpack::encode_map(&request, Profile::Local)).map_err(failed)?;
        let reply = msgpack::decode(&reply).ok().and_then(Value::into_map);
        let mut reply = reply.ok_or_else(|| {
            StoreError::Away(format!(
                "{PROGRAM} exited without a reply; see its error message"
            ))
        })?;
        let text = |reply: &Map, key: &str| reply.str(key).map(str::to_owned);
        if let Some(why) = text(&reply, "away") {
            return Err(StoreError::Away(why));
        }
        if let Some(why) = text(&reply, "refused") {
            return Err(StoreError::Refused(why));
        }
        Ok(reply.remove("value").unwrap_or_default())
    }
}

impl Store for Helper {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let jobs: Vec<Value> = updates.iter().map(encode_update).collect();
        self.ask("jobs", jobs.into()).map(drop)
    }

    fn read(&mut self, question: Question<'_>) -> Result<Value, StoreError> {
        let (what, argument) = match question {
            Question::Jid(jid) => ("get_jid", jid),
            Question::Fun(fun) => ("get_fun", fun),
            Question::Jids => ("get_jids", ""),
            Question::Minions => ("get_minions", ""),
        };
        self.ask("read", vec![what.to_owned(), argument.to_owned()].into())
    }
}

fn encode_update(updates: &JobUpdate) -> Value {
    let returns = updates.returns.iter();
    let returns: Vec<Value> = returns
        .map(|ret| map! {"id" => ret.id.as_str(), "load" => ret.load.clone()}.into())
        .collect();
    let mut out = map! {"jid" => updates.jid.to_string(), "returns" => returns};
    if let Some(load) = &updates.load {
        out.set("load", load.clone());
    }
    out.into()
}

fn decode_update(job: &Value) -> Option<JobUpdate> {
    let job = job.as_map()?;
    let returns = job.get("returns")?.as_array()?.iter().map(|ret| {
        let ret = ret.as_map()?;
        Some(StoredReturn {
            id: ret.str("id")?.to_owned(),
            load: ret.get("load")?.as_map()?.clone(),
        })
    });
    Some(JobUpdate {
        is_started_by_minion: false,
        jid: job.str("jid")?.parse::<Jid>().ok()?,
        load: job.get("load").and_then(Value::as_map).cloned(),
        returns: returns.collect::<Option<_>>()?,
        end: 0,
    })
}

/// The program's path: beside this one, as packages and cargo install it.
fn program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    let why = format!(
        "{} is missing: returners that write to databases need it beside this program",
        program.display()
    );
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// Runs the program with a request and returns its output.
fn run(request: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new(program()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The program reads the whole request before it writes.
    let given = child
        .stdin
        .take()
        .map_or(Ok(()), |mut to| to.write_all(request));
    let mut reply = Vec::new();
    let taken = match child.stdout.take() {
        Some(from) => from.take(MAX_MESSAGE).read_to_end(&mut reply).map(drop),
        None => Ok(()),
    };
    child.wait()?;
    given.and(taken).map(|()| reply)
}

/// The main function of `halite-returner`: handles the request on standard input with `open`, and writes the reply.
/// Returns the exit status.
pub fn serve(open: fn(&Opener) -> Box<dyn Store>) -> i32 {
    // Do not outlive the minion while a database does not answer.
    if let Err(e) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        eprintln!("{PROGRAM}: cannot set the parent death signal: {e}");
        return 1;
    }
    let mut request = Vec::new();
    let read = io::stdin()
        .lock()
        .take(MAX_MESSAGE)
        .read_to_end(&mut request);
    let reply = read.ok().and_then(|_| handle(&request, open));
    let Some(reply) = reply else {
        eprintln!(
            "ERROR: {PROGRAM} is started by halite-minion and halite-call for returners that write to databases; its standard input is not a valid request"
        );
        return 64;
    };
    let bytes = msgpack::encode_map(&reply, Profile::Local);
    let mut out = io::stdout().lock();
    match out.write_all(&bytes).and_then(|()| out.flush()) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("{PROGRAM}: cannot write the reply: {e}");
            1
        }
    }
}

/// The reply to a request; `None` if the request is invalid.
fn handle(request: &[u8], open: fn(&Opener) -> Box<dyn Store>) -> Option<Map> {
    let request = msgpack::decode(request).ok()?.into_map()?;
    let returner = Returner::parse(request.str("returner")?)?;
    let settings = request.get("settings")?.as_map()?;
    let mut store = open(&Opener {
        settings: Settings::new(returner, vec![settings]),
        id: request.str("id")?,
        keep: u64::try_from(request.int("keep")?).ok()?,
        product: request.str("product")?,
        program: "halite-minion",
    });
    let outcome = if let Some(jobs) = request.get("jobs") {
        let updates: Vec<JobUpdate> = jobs
            .as_array()?
            .iter()
            .map(decode_update)
            .collect::<Option<_>>()?;
        store.jobs(&updates).map(|()| Value::Nil)
    } else {
        let [what, argument] = request.get("read")?.as_array()? else {
            return None;
        };
        let argument = argument.as_str()?;
        store.read(match what.as_str()? {
            "get_jid" => Question::Jid(argument),
            "get_fun" => Question::Fun(argument),
            "get_jids" => Question::Jids,
            "get_minions" => Question::Minions,
            _ => return None,
        })
    };
    Some(match outcome {
        Ok(value) => map! {"value" => value},
        Err(StoreError::Away(why)) => map! {"away" => why},
        Err(StoreError::Refused(why)) => map! {"refused" => why},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with what it was given.
    struct Echo(String);

    impl Store for Echo {
        fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
            let ids: Vec<&str> = updates[0]
                .returns
                .iter()
                .map(|ret| ret.id.as_str())
                .collect();
            Err(StoreError::Refused(format!(
                "{} {} {ids:?}",
                self.0, updates[0].jid
            )))
        }

        fn read(&mut self, question: Question<'_>) -> Result<Value, StoreError> {
            match question {
                Question::Jid(jid) => Ok(jid.into()),
                _ => Err(StoreError::Away("not now".into())),
            }
        }
    }

    fn echo(opener: &Opener) -> Box<dyn Store> {
        let host = opener.settings.text_or("host", "nowhere");
        Box::new(Echo(format!("{host} {}", opener.id)))
    }

    fn request(what: &str, question: Value) -> Vec<u8> {
        let (first, second) = (
            map! {"redis.host" => ""},
            map! {"redis" => map! {"host" => "db1"}, "secret" => "x"},
        );
        let helper = Helper::new(&Opener {
            settings: Settings::new(Returner::Redis, vec![&first, &second]),
            id: "m1",
            keep: 60,
            product: "halite",
            program: "halite-minion",
        });
        assert!(!format!("{:?}", helper.request).contains("secret"));
        let mut request = helper.request;
        request.set(what, question);
        msgpack::encode_map(&request, Profile::Local)
    }

    #[test]
    fn requests_carry_the_settings_of_one_returner() {
        let updates = JobUpdate {
            is_started_by_minion: false,
            jid: "20261121120000000001".parse().unwrap(),
            load: None,
            returns: vec![StoredReturn {
                id: "m1".into(),
                load: map! {"return" => true},
            }],
            end: 0,
        };
        let reply = handle(&request("jobs", vec![encode_update(&updates)].into()), echo).unwrap();
        assert_eq!(
            reply.str("refused"),
            Some("db1 m1 20261121120000000001 [\"m1\"]")
        );
        let read = |what: &str| {
            let question = vec![what.to_owned(), "7".to_owned()];
            handle(&request("read", question.into()), echo)
        };
        assert_eq!(read("get_jid").unwrap().str("value"), Some("7"));
        assert_eq!(read("get_jids").unwrap().str("away"), Some("not now"));
        assert_eq!(read("drop_all"), None);
    }

    #[test]
    fn invalid_requests_are_rejected() {
        for bytes in [&b""[..], b"\x80", b"\xc1", &request("jobs", Value::from(3))] {
            assert_eq!(handle(bytes, echo), None);
        }
    }
}
