//! Names of places at brokers: NATS subjects, and STOMP destinations at RabbitMQ and ActiveMQ (reference, sections 13, 15
//! and 16).
//!
//! The reply address of a request is untrusted. [`Bus::may_answer`] accepts only places for replies, so that nobody can make
//! this host publish anywhere else.

use super::{AgentName, CallerId, Collective, Identity};
use md5::{Digest, Md5};

/// Where messages are received.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// All nodes with an agent.
    Broadcast(Collective, AgentName),
    /// One node.
    Node(Collective, Identity),
    /// Replies to this process.
    Replies(Collective),
}

/// The kind of broker, which decides the naming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// NATS.
    Nats,
    /// RabbitMQ over STOMP.
    RabbitMq,
    /// ActiveMQ over STOMP.
    ActiveMq,
}

/// Longest name to publish to, in bytes.
const LONGEST: usize = 1024;

/// Prefix of temporary queues at RabbitMQ. The broker replaces it in what receivers see.
const TEMPORARY: &str = "/temp-queue/mcollective_reply_";

/// The names used by one process.
#[derive(Clone, Debug)]
pub struct Names {
    bus: Bus,
    /// Identifies this process in reply addresses.
    token: String,
    pid: u32,
    sequence: u32,
}

impl Names {
    /// Names of a process that sends as `caller` from `identity`. Current Choria receives replies at the hash of the caller id,
    /// and brokers may permit nothing else; Choria of 2016 and MCollective at the identity (`by_identity`). `sequence`
    /// distinguishes connections of one process.
    pub fn new(
        bus: Bus,
        identity: &Identity,
        caller: &CallerId,
        by_identity: bool,
        pid: u32,
        sequence: u32,
    ) -> Names {
        let token = if by_identity || bus != Bus::Nats {
            identity.to_string()
        } else {
            caller_token(caller)
        };
        Names {
            bus,
            token,
            pid,
            sequence,
        }
    }

    /// The name of a place, to subscribe or publish to.
    pub fn of(&self, place: &Place) -> String {
        match place {
            Place::Broadcast(collective, agent) => self.bus.broadcast(collective, agent),
            Place::Node(collective, identity) => self.bus.node(collective, identity),
            Place::Replies(collective) => self.replies(collective),
        }
    }

    /// The reply address of this process.
    pub fn replies(&self, collective: &Collective) -> String {
        let (token, pid, sequence) = (&self.token, self.pid, self.sequence);
        match self.bus {
            Bus::Nats => format!("{collective}.reply.{token}.{pid}.{sequence}"),
            Bus::RabbitMq => format!("{TEMPORARY}{collective}"),
            Bus::ActiveMq => format!("/queue/{collective}.reply.{token}_{pid}.{sequence}"),
        }
    }

    /// The place with this name; `None` if it is not one of ours.
    pub fn place(&self, name: &str) -> Option<Place> {
        match self.bus {
            Bus::Nats => {
                let (collective, rest) = name.split_once('.')?;
                let collective: Collective = collective.parse().ok()?;
                if let Some(agent) = rest.strip_prefix("broadcast.agent.") {
                    return Some(Place::Broadcast(collective, agent.parse().ok()?));
                }
                if let Some(identity) = rest.strip_prefix("node.") {
                    return Some(Place::Node(collective, identity.parse().ok()?));
                }
                (self.replies(&collective) == name).then_some(Place::Replies(collective))
            }
            Bus::RabbitMq => {
                if let Some(collective) = name.strip_prefix(TEMPORARY) {
                    return Some(Place::Replies(collective.parse().ok()?));
                }
                let (exchange, key) = name.strip_prefix("/exchange/")?.split_once('/')?;
                if let Some(collective) = exchange.strip_suffix("_broadcast") {
                    let collective = collective.parse().ok()?;
                    return Some(Place::Broadcast(collective, key.parse().ok()?));
                }
                let collective = exchange.strip_suffix("_directed")?.parse().ok()?;
                Some(Place::Node(collective, key.parse().ok()?))
            }
            Bus::ActiveMq => match name.strip_prefix("/topic/") {
                Some(topic) => {
                    let (collective, rest) = topic.split_once('.')?;
                    let agent = rest.strip_suffix(".agent")?;
                    let collective = collective.parse().ok()?;
                    Some(Place::Broadcast(collective, agent.parse().ok()?))
                }
                None => {
                    let (collective, _) = name.strip_prefix("/queue/")?.split_once('.')?;
                    let collective: Collective = collective.parse().ok()?;
                    (self.replies(&collective) == name).then_some(Place::Replies(collective))
                }
            },
        }
    }
}

/// Identifies a caller in reply subjects of Choria: the MD5 of its id in hexadecimal (reference, section 15).
pub fn caller_token(caller: &CallerId) -> String {
    let digest = Md5::digest(caller.as_str().as_bytes());
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl Bus {
    /// All nodes with an agent.
    pub fn broadcast(self, collective: &Collective, agent: &AgentName) -> String {
        match self {
            Bus::Nats => format!("{collective}.broadcast.agent.{agent}"),
            Bus::RabbitMq => format!("/exchange/{collective}_broadcast/{agent}"),
            Bus::ActiveMq => format!("/topic/{collective}.{agent}.agent"),
        }
    }

    /// The name for one node. At ActiveMQ all nodes share a queue, and the header `mc_identity` selects.
    pub fn node(self, collective: &Collective, identity: &Identity) -> String {
        match self {
            Bus::Nats => format!("{collective}.node.{identity}"),
            Bus::RabbitMq => format!("/exchange/{collective}_directed/{identity}"),
            Bus::ActiveMq => format!("/queue/{collective}.nodes"),
        }
    }

    /// Whether a reply may be published there: to places for replies, and with `federated` to subjects of a federation
    /// broker. Wildcards, spaces and control characters are never accepted.
    pub fn may_answer(self, reply_to: &str, federated: bool) -> bool {
        match self {
            Bus::Nats => {
                is_reply_subject(reply_to)
                    || federated && federation_of(reply_to, Side::Collective).is_some()
            }
            Bus::RabbitMq => {
                let forms = [
                    "/reply-queue/",
                    "/temp-queue/",
                    "/exchange/mcollective_reply/",
                ];
                is_destination(reply_to)
                    && forms
                        .iter()
                        .filter_map(|form| reply_to.strip_prefix(form))
                        .any(|key| !key.is_empty() && !key.contains('/'))
            }
            Bus::ActiveMq => {
                let queue = reply_to.strip_prefix("/queue/").unwrap_or_default();
                is_destination(reply_to) && !queue.contains('/') && has_reply(queue)
                    || is_destination(reply_to) && reply_to.starts_with("/temp-queue/")
            }
        }
    }
}

/// A side of a federation broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where clients are.
    Federation,
    /// Where nodes are.
    Collective,
}

/// The federation whose broker receives this subject on this side, in the naming of deployed programs
/// (`choria.federation.NAME.federation`, `.collective`) or of the seed (`federation.network.NAME` on both).
pub fn federation_of(subject: &str, side: Side) -> Option<&str> {
    let name = match subject.strip_prefix("federation.network.") {
        Some(name) => name,
        None => {
            let rest = subject.strip_prefix("choria.federation.")?;
            match side {
                Side::Federation => rest.strip_suffix(".federation")?,
                Side::Collective => rest.strip_suffix(".collective")?,
            }
        }
    };
    name.parse::<Collective>().is_ok().then_some(name)
}

/// Whether a subject of NATS can be published to: whole tokens of printable characters, no wildcard.
pub fn is_subject(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_graphic() && c != b'*' && c != b'>';
    text.len() <= LONGEST
        && text
            .split('.')
            .all(|token| !token.is_empty() && token.bytes().all(plain))
}

/// Whether a subject is for replies: `^.+?\.reply\.`, as in Ruby's federation broker (reference, section 16), and
/// neither reserved by brokers (`$SYS`, `_INBOX`) nor a subject of nodes.
pub fn is_reply_subject(text: &str) -> bool {
    is_subject(text) && !text.starts_with(['$', '_']) && has_reply(text) && !is_target_subject(text)
}

/// Whether a subject is one of nodes: `^.+?\.((broadcast\.agent)|(node))\.` (reference, section 16).
pub fn is_target_subject(text: &str) -> bool {
    let kinds = [".broadcast.agent.", ".node."];
    is_subject(text)
        && !text.starts_with(['$', '_'])
        && kinds.iter().any(|kind| follows(text, kind))
}

fn has_reply(text: &str) -> bool {
    follows(text, ".reply.")
}

/// Whether `part` is in the text, with something before and after it.
fn follows(text: &str, part: &str) -> bool {
    let at = text.find(part).unwrap_or_default();
    at > 0 && at + part.len() < text.len()
}

/// Whether a STOMP destination contains no wildcards and nothing that would end a header.
fn is_destination(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_graphic() && !matches!(c, b'*' | b'>' | b'#' | b'?' | b'\\');
    text.len() <= LONGEST && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bus: Bus, by_identity: bool) -> Names {
        let identity = "rip.mcollective".parse().unwrap();
        let caller = "choria=rip.mcollective".parse().unwrap();
        Names::new(bus, &identity, &caller, by_identity, 32735, 1)
    }

    fn places() -> [Place; 3] {
        let collective: Collective = "mcollective".parse().unwrap();
        [
            Place::Broadcast(collective.clone(), "discovery".parse().unwrap()),
            Place::Node(collective.clone(), "node1.example".parse().unwrap()),
            Place::Replies(collective),
        ]
    }

    #[test]
    fn names_are_those_of_the_captures_and_are_read_back() {
        let cases = [
            (
                names(Bus::Nats, false),
                [
                    "mcollective.broadcast.agent.discovery",
                    "mcollective.node.node1.example",
                    "mcollective.reply.37bdf08389145a56c13096c178802d3b.32735.1",
                ],
            ),
            (
                names(Bus::Nats, true),
                [
                    "mcollective.broadcast.agent.discovery",
                    "mcollective.node.node1.example",
                    "mcollective.reply.rip.mcollective.32735.1",
                ],
            ),
            (
                names(Bus::RabbitMq, false),
                [
                    "/exchange/mcollective_broadcast/discovery",
                    "/exchange/mcollective_directed/node1.example",
                    "/temp-queue/mcollective_reply_mcollective",
                ],
            ),
            (
                names(Bus::ActiveMq, false),
                [
                    "/topic/mcollective.discovery.agent",
                    "/queue/mcollective.nodes",
                    "/queue/mcollective.reply.rip.mcollective_32735.1",
                ],
            ),
        ];
        for (names, expected) in cases {
            for (place, expected) in places().iter().zip(expected) {
                assert_eq!(names.of(place), expected);
                // Nodes at ActiveMQ share a queue: there, the subscription identifies the node.
                let alone = expected != "/queue/mcollective.nodes";
                assert_eq!(names.place(expected).as_ref(), alone.then_some(place));
            }
        }
    }

    #[test]
    fn names_of_others_are_no_place() {
        for (bus, name) in [
            (
                Bus::Nats,
                "mcollective.reply.37bdf08389145a56c13096c178802d3b.32735.2",
            ),
            (Bus::Nats, "mcollective.broadcast.agent."),
            (Bus::Nats, "mcollective.node.a..b"),
            (Bus::Nats, "mcollective"),
            (Bus::RabbitMq, "/exchange/mcollective_broadcast/a/b"),
            (Bus::RabbitMq, "/queue/x"),
            (Bus::ActiveMq, "/topic/mcollective.a"),
            (Bus::ActiveMq, "/queue/mcollective.reply.other_1.1"),
        ] {
            assert_eq!(names(bus, false).place(name), None, "{name}");
        }
    }

    #[test]
    fn answers_go_to_places_for_answers_only() {
        for (bus, good) in [
            (Bus::Nats, "mcollective.reply.rip.mcollective.28500.1"),
            (
                Bus::Nats,
                "mcollective.reply.37bdf08389145a56c13096c178802d3b.x",
            ),
            (Bus::RabbitMq, "/reply-queue/amq.gen-_Kweqtglv25JdX6tfXqWrw"),
            (Bus::RabbitMq, "/temp-queue/mcollective_reply_discovery"),
            (Bus::RabbitMq, "/exchange/mcollective_reply/client_1_2"),
            (Bus::ActiveMq, "/queue/mcollective.reply.client_1.2"),
            (Bus::ActiveMq, "/temp-queue/x"),
        ] {
            assert!(bus.may_answer(good, false), "{good}");
            assert!(bus.may_answer(good, true), "{good}");
        }
        for (bus, bad) in [
            (Bus::Nats, ""),
            (Bus::Nats, ".reply.x"),
            (Bus::Nats, "mcollective.reply."),
            (Bus::Nats, "mcollective.reply"),
            (Bus::Nats, "mcollective.node.reply"),
            (Bus::Nats, "mcollective.reply.*"),
            (Bus::Nats, "mcollective.reply.>"),
            (Bus::Nats, "mcollective.reply.a b"),
            (Bus::Nats, "mcollective.reply.a\r\nPUB x 0\r\n"),
            (Bus::Nats, "mcollective.reply.a..b"),
            (Bus::Nats, "mcollective.reply.é"),
            (Bus::Nats, "$SYS.reply.x"),
            (Bus::Nats, "_INBOX.reply.x"),
            (Bus::Nats, "mcollective.broadcast.agent.shell"),
            (Bus::Nats, "mcollective.node.a.reply.b"),
            (Bus::RabbitMq, "/exchange/mcollective_broadcast/shell"),
            (Bus::RabbitMq, "/exchange/mcollective_reply/"),
            (Bus::RabbitMq, "/exchange/mcollective_reply/a/b"),
            (Bus::RabbitMq, "/reply-queue/"),
            (Bus::RabbitMq, "/reply-queue/a\nreceipt:1"),
            (Bus::RabbitMq, "/queue/x"),
            (Bus::ActiveMq, "/queue/mcollective.nodes"),
            (Bus::ActiveMq, "/queue/mcollective.reply.>"),
            (Bus::ActiveMq, "/queue/a.reply.x?option=1"),
            (Bus::ActiveMq, "/topic/mcollective.reply.x"),
        ] {
            assert!(!bus.may_answer(bad, false), "{bad}");
            assert!(!bus.may_answer(bad, true), "{bad}");
        }
        for subject in ["choria.federation.colla.collective", "federation.network.a"] {
            assert!(Bus::Nats.may_answer(subject, true));
            assert!(!Bus::Nats.may_answer(subject, false));
        }
        assert!(!Bus::Nats.may_answer("choria.federation.colla.federation", true));
        assert!(!Bus::Nats.may_answer("choria.federation.*.collective", true));
    }

    #[test]
    fn targets_are_what_nodes_hear() {
        for good in [
            "mcollective.broadcast.agent.discovery",
            "mcollective.node.a.b",
        ] {
            assert!(is_target_subject(good), "{good}");
        }
        for bad in [
            "mcollective.broadcast.agent.*",
            "mcollective.node.>",
            "mcollective.node.",
            "mcollective.reply.a",
            "choria.federation.a.federation",
            ".node.a",
            "$SYS.node.a",
        ] {
            assert!(!is_target_subject(bad), "{bad}");
        }
    }

    #[test]
    fn subjects_of_federations_tell_their_name_and_side() {
        let found = |text| {
            (
                federation_of(text, Side::Federation),
                federation_of(text, Side::Collective),
            )
        };
        assert_eq!(found("choria.federation.a.federation"), (Some("a"), None));
        assert_eq!(found("choria.federation.a.collective"), (None, Some("a")));
        assert_eq!(found("federation.network.a"), (Some("a"), Some("a")));
        assert_eq!(found("choria.federation.a.b.collective"), (None, None));
        assert_eq!(found("choria.federation.a.stats"), (None, None));
    }
}
