//! What masters write to each other about what their job caches lack: a question, and its answer.

use crate::digest;
use crate::jobs::record::{JobRecord, records_of, records_value};
use halite_wire::Value;
use halite_wire::budget::Budget;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};

/// What a master has of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How many returns.
    pub count: u64,
    /// Whose, and whether the load is there: a number that is the same for the same.
    pub content: u64,
}

/// What one master writes to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Letter {
    /// Asks for what it lacks.
    Ask(Ask),
    /// Answers.
    Fill(Fill),
}

/// Asks for what there is of jobs since a time that this master lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// For the answer.
    pub ticket: u64,
    /// Jobs that started then or later, in Unix seconds.
    pub since: u64,
    /// Jobs after this one.
    pub after: Option<Jid>,
    /// Up to this one; all if there is none.
    pub until: Option<Jid>,
    /// Records of the next job that came already.
    pub skip: u64,
    /// What is there of these jobs.
    pub have: Vec<(Jid, Digest)>,
}

/// Some of what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// That of the question.
    pub ticket: u64,
    /// What the other lacks.
    pub records: Vec<JobRecord>,
    /// This is all up to this job.
    pub after: Option<Jid>,
    /// How many records of the next one are there, too.
    pub skip: u64,
    /// Whether there is nothing more.
    pub is_end: bool,
}

fn text(jid: Option<&Jid>) -> &str {
    jid.map_or("", Jid::as_str)
}

impl Letter {
    /// As it is sent to the master `to`.
    pub fn encode(&self, to: &str) -> Vec<u8> {
        let mut map = match self {
            Letter::Ask(ask) => {
                let one = |(jid, digest): &(Jid, Digest)| {
                    let parts = [
                        jid.as_str().into(),
                        digest.count.into(),
                        digest.content.into(),
                    ];
                    Value::Array(parts.into())
                };
                halite_wire::map! {
                    "kind" => "ask", "ticket" => ask.ticket, "since" => ask.since,
                    "after" => text(ask.after.as_ref()), "until" => text(ask.until.as_ref()),
                    "skip" => ask.skip, "have" => Value::Array(ask.have.iter().map(one).collect()),
                }
            }
            Letter::Fill(fill) => halite_wire::map! {
                "kind" => "fill", "ticket" => fill.ticket, "records" => records_value(&fill.records),
                "after" => text(fill.after.as_ref()), "skip" => fill.skip, "end" => fill.is_end,
            },
        };
        map.set("to", to);
        msgpack::encode_map(&map, Profile::Local)
    }

    /// Reads a letter to the master `to`; `None` if it is not one.
    pub fn decode(bytes: &[u8], to: &str) -> Option<Letter> {
        let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
        let number = |name: &str| digest::number(map.get(name)?);
        let jid = |name: &str| match map.str(name)? {
            "" => Some(None),
            jid => jid.parse().ok().map(Some),
        };
        if map.str("to")? != to {
            return None;
        }
        let (ticket, after, skip) = (number("ticket")?, jid("after")?, number("skip")?);
        match map.str("kind")? {
            "ask" => {
                let one = |value: &Value| {
                    let [jid, count, content] = value.as_array()? else {
                        return None;
                    };
                    let (count, content) = (digest::number(count)?, digest::number(content)?);
                    Some((jid.as_str()?.parse().ok()?, Digest { count, content }))
                };
                Some(Letter::Ask(Ask {
                    ticket,
                    since: number("since")?,
                    after,
                    until: jid("until")?,
                    skip,
                    have: map
                        .get("have")?
                        .as_array()?
                        .iter()
                        .map(one)
                        .collect::<Option<_>>()?,
                }))
            }
            "fill" => Some(Letter::Fill(Fill {
                ticket,
                records: records_of(map.get("records")?)?,
                after,
                skip,
                is_end: map.get("end")?.as_bool()?,
            })),
            _ => None,
        }
    }
}
