//! The connector for STOMP against a broker of a few lines: every header that goes out, and what a broker may do wrong.

use halite::collective::broker::{Heard, Place, To, Unsent};
use halite::collective::wire::Refused;
use halite::map;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use testing::collective::{Peer, discovery, main_collective, node, packet, settings, to};
use testing::wait_until;

/// Takes one connection after the other.
struct Broker {
    listener: TcpListener,
}

/// The broker's end of a connection.
struct Session {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// Command, headers, body.
type Seen = (String, BTreeMap<String, String>, Vec<u8>);

impl Broker {
    fn new() -> Broker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Broker { listener }
    }

    fn peer(&self, kind: &str, room: usize) -> Peer {
        let address = self.listener.local_addr().unwrap().to_string();
        let more = map! {
            "connector" => kind, "security" => "psk", "psk_file" => "/psk",
            "user" => "mcollective", "password" => "s3cret",
        };
        Peer::open(&settings(&[address], more), room)
    }

    fn accept(&self) -> Session {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(testing::LONG)).unwrap();
        Session {
            stream,
            unread: Vec::new(),
        }
    }

    /// Lets a client in and waits for its subscriptions.
    fn welcome(&self, subscriptions: usize) -> (Session, Vec<Seen>) {
        let mut session = self.accept();
        let connect = session.next();
        assert_eq!(connect.0, "CONNECT");
        session.say("CONNECTED\nversion:1.0\n\n\0");
        let seen: Vec<Seen> = (0..subscriptions).map(|_| session.next()).collect();
        if let Some(receipt) = seen
            .iter()
            .find_map(|(_, headers, _)| headers.get("receipt"))
        {
            session.say(format!("RECEIPT\nreceipt-id:{receipt}\n\n\0"));
        }
        (session, seen)
    }
}

impl Session {
    fn say(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).unwrap();
    }

    /// The next frame; bodies are as long as `content-length` says.
    fn next(&mut self) -> Seen {
        loop {
            let text = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some((head, _)) = text.split_once("\n\n") {
                let mut lines = head.lines();
                let command = lines.next().unwrap().to_owned();
                let headers: BTreeMap<String, String> = lines
                    .map(|line| line.split_once(':').unwrap())
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                let length = headers
                    .get("content-length")
                    .map_or(0, |n| n.parse().unwrap());
                let begin = head.len() + 2;
                if self.unread.len() > begin + length {
                    let body = self.unread[begin..begin + length].to_vec();
                    assert_eq!(self.unread[begin + length], 0);
                    self.unread.drain(..=begin + length);
                    return (command, headers, body);
                }
            }
            let mut piece = [0; 65536];
            let read = self.stream.read(&mut piece).unwrap();
            assert!(read > 0, "the connector has closed the connection");
            self.unread.extend_from_slice(&piece[..read]);
        }
    }
}

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn headers_for_rabbitmq_are_those_of_mcollective() {
    let broker = Broker::new();
    let peer = broker.peer("rabbitmq", 100);
    peer.connector.subscribe(&discovery());
    peer.connector.subscribe(&Place::Replies(main_collective()));
    let mut session = broker.accept();
    let (command, headers, _) = session.next();
    assert_eq!(command, "CONNECT");
    assert_eq!(
        headers,
        pairs(&[
            ("accept-version", "1.1,1.0"),
            ("host", "/"),
            ("heart-beat", "30000,30000"),
            ("login", "mcollective"),
            ("passcode", "s3cret"),
        ])
    );
    session.say("CONNECTED\nversion:1.0\n\n\0");
    // The queue for replies is made by the broker.
    let (command, mut headers, _) = session.next();
    assert_eq!(command, "SUBSCRIBE");
    let id = headers.remove("id").unwrap();
    let receipt = headers.remove("receipt").unwrap();
    let destination = "/exchange/mcollective_broadcast/discovery";
    assert_eq!(
        headers,
        pairs(&[("ack", "auto"), ("destination", destination)])
    );
    assert!(
        peer.heard.is_empty(),
        "it is not there before the receipt is"
    );
    session.say(format!("RECEIPT\nreceipt-id:{receipt}\n\n\0"));
    peer.up();

    let mut asked = packet("");
    asked.data = b"\x04\x08\0binary\n\n\0".to_vec();
    peer.connector
        .publish(&to(&discovery()), asked.clone(), true, 60)
        .unwrap();
    let (command, headers, body) = session.next();
    assert_eq!((command.as_str(), &body), ("SEND", &asked.data));
    let sent = |destination: &str, reply_to: Option<&str>| {
        let mut all = pairs(&[
            ("destination", destination),
            ("expiration", "70000"),
            ("mc_sender", "rip.mcollective"),
            ("content-length", "12"),
        ]);
        all.extend(reply_to.map(|to| ("reply-to".to_owned(), to.to_owned())));
        all
    };
    let temporary = "/temp-queue/mcollective_reply_mcollective";
    assert_eq!(headers, sent(destination, Some(temporary)));
    let nodes = To::Nodes(
        main_collective(),
        vec!["n1".parse().unwrap(), "n2".parse().unwrap()],
    );
    peer.connector
        .publish(&nodes, asked.clone(), true, 60)
        .unwrap();
    for node in ["n1", "n2"] {
        let (_, headers, body) = session.next();
        let destination = format!("/exchange/mcollective_directed/{node}");
        assert_eq!(headers, sent(&destination, Some(temporary)));
        assert_eq!(body, asked.data);
    }
    let queue = "/reply-queue/amq.gen-_Kweqtglv25JdX6tfXqWrw";
    peer.connector
        .publish(&To::Reply(queue.into()), asked.clone(), false, 60)
        .unwrap();
    assert_eq!(session.next().1, sent(queue, None));

    // What comes in: by the subscription, or by the name of the temporary queue.
    session.say(format!(
        "MESSAGE\nsubscription:{id}\nmessage-id:1\nmc_sender:node1\nreply-to:{queue}\ncontent-length:3\n\n"
    ));
    session.say(b"a\0b\0");
    let (place, came) = peer.packet();
    assert_eq!(place, Some(discovery()));
    assert_eq!(
        (came.data.as_slice(), came.sender.as_deref()),
        (b"a\0b".as_slice(), Some("node1"))
    );
    assert_eq!(came.reply_to.as_deref(), Some(queue));
    session.say(format!(
        "MESSAGE\nsubscription:{temporary}\nmc_sender:node2\n\npong\0"
    ));
    let (place, came) = peer.packet();
    assert_eq!(place, Some(Place::Replies(main_collective())));
    assert_eq!(
        (came.data.as_slice(), came.reply_to),
        (b"pong".as_slice(), None)
    );
    session.say("MESSAGE\nsubscription:nobody\n\nx\0MESSAGE\nsubscription:nobody\n\n\0");
    assert_eq!(peer.packet().0, None);
    assert!(matches!(peer.next(), Heard::Refused(Refused::Malformed(_))));

    peer.connector.unsubscribe(&discovery());
    let (command, headers, _) = session.next();
    assert_eq!(command, "UNSUBSCRIBE");
    assert_eq!(headers, pairs(&[("id", &id), ("destination", destination)]));
    drop(peer);
    assert_eq!(session.next().0, "DISCONNECT");
}

#[test]
fn headers_for_activemq_are_those_of_mcollective() {
    let broker = Broker::new();
    let peer = broker.peer("activemq", 100);
    let replies = Place::Replies(main_collective());
    for place in [&discovery(), &node("node1.example"), &replies] {
        peer.connector.subscribe(place);
    }
    let (mut session, subscriptions) = broker.welcome(3);
    peer.up();
    let of = |destination: &str| {
        let found = subscriptions
            .iter()
            .find(|(_, headers, _)| headers["destination"].starts_with(destination));
        found.unwrap().1.clone()
    };
    assert_eq!(
        of("/topic/mcollective.discovery.agent").get("selector"),
        None
    );
    assert_eq!(
        of("/queue/mcollective.nodes")["selector"],
        "mc_identity = 'node1.example'"
    );
    let reply_to = of("/queue/mcollective.reply.")["destination"].clone();
    let process = format!(
        "/queue/mcollective.reply.rip.mcollective_{}.",
        std::process::id()
    );
    assert!(reply_to.starts_with(&process), "{reply_to}");

    peer.connector
        .publish(&to(&node("node1.example")), packet("question"), true, 60)
        .unwrap();
    let (_, mut headers, _) = session.next();
    let number = |text: Option<String>| text.unwrap().parse::<u64>().unwrap();
    let begun = number(headers.remove("timestamp"));
    let ends = number(headers.remove("expires"));
    assert_eq!(ends - begun, 70_000);
    assert!(begun > 1_700_000_000_000);
    assert_eq!(
        headers,
        pairs(&[
            ("destination", "/queue/mcollective.nodes"),
            ("mc_identity", "node1.example"),
            ("reply-to", &reply_to),
            ("mc_sender", "rip.mcollective"),
            ("content-length", "8"),
        ])
    );
    peer.connector
        .publish(&to(&discovery()), packet("question"), true, 60)
        .unwrap();
    let (_, headers, _) = session.next();
    assert_eq!(headers["destination"], "/topic/mcollective.discovery.agent");
    assert_eq!(headers.get("mc_identity"), None);
    for (destination, place) in [
        (&reply_to, &replies),
        (
            &"/queue/mcollective.nodes".to_owned(),
            &node("node1.example"),
        ),
    ] {
        let id = &of(destination)["id"];
        session.say(format!("MESSAGE\nsubscription:{id}\n\nx\0"));
        assert_eq!(peer.packet().0.as_ref(), Some(place));
    }
}

#[test]
fn limits_hold_and_drops_are_counted() {
    let broker = Broker::new();
    let peer = broker.peer("rabbitmq", 4);
    let (mut session, _) = broker.welcome(0);
    peer.up();
    let mut large = packet("");
    large.data = vec![0; (8 << 20) + 1];
    let refused = peer.connector.publish(&to(&discovery()), large, true, 60);
    assert_eq!(refused, Err(Unsent::TooLarge(8 << 20)));
    session.say("MESSAGE\nsubscription:x\n\ny\0".repeat(100));
    wait_until("the rest is dropped", || peer.connector.dropped() == 96);
    for _ in 0..4 {
        assert_eq!(peer.packet().1.data, b"y");
    }
    // Nobody reads: what has no room in the socket waits, up to the bound.
    let mut fitting = packet("");
    fitting.data = vec![0; 1 << 20];
    let mut taken = 0;
    while peer
        .connector
        .publish(&to(&discovery()), fitting.clone(), true, 3600)
        .is_ok()
    {
        taken += 1;
        assert!(taken < 200);
    }
    assert!(taken >= 64, "{taken}");
}

/// Whoever may publish can have one passed on to us. The answers of others that follow must arrive.
#[test]
fn a_message_over_a_limit_costs_no_connection() {
    let broker = Broker::new();
    let peer = broker.peer("rabbitmq", 100);
    let (mut session, _) = broker.welcome(0);
    peer.up();
    let large = vec![b'x'; (8 << 20) + 1];
    let many = "a:b\n".repeat(200);
    for (head, body, limit) in [
        (
            format!("content-length:{}\n", large.len()),
            large.as_slice(),
            "8 MiB of body",
        ),
        (String::new(), &large, "8 MiB of body"),
        (many, b"y", "128 headers"),
        (
            format!("a:{}\n", "x".repeat(70_000)),
            b"y",
            "64 KiB of headers",
        ),
    ] {
        session.say(format!("MESSAGE\nsubscription:x\n{head}\n"));
        session.say(body);
        session.say("\0MESSAGE\nsubscription:x\n\nafter it\0");
        let refused = peer.next();
        let Heard::Refused(why) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(why.to_string(), format!("it exceeds the limit of {limit}"));
        assert_eq!(peer.packet().1.data, b"after it");
    }
}

/// Whoever sends a request chooses how long its answers may stay at the broker, which closes the connection if that is
/// too long.
#[test]
fn no_time_to_live_is_more_than_a_broker_takes() {
    let broker = Broker::new();
    let peer = broker.peer("rabbitmq", 4);
    let (mut session, _) = broker.welcome(0);
    peer.up();
    let reply = To::Reply("/temp-queue/mcollective_reply_x".to_owned());
    for (ttl, lasts) in [
        (60, "70000"),
        (320_000_000, "86410000"),
        (u32::MAX, "86410000"),
    ] {
        peer.connector
            .publish(&reply, packet("answer"), false, ttl)
            .unwrap();
        assert_eq!(session.next().1["expiration"], lasts, "{ttl}");
    }
}

#[test]
fn what_a_broker_does_wrong_is_told_and_it_is_tried_again() {
    let broker = Broker::new();
    let peer = broker.peer("rabbitmq", 100);
    peer.connector.subscribe(&discovery());
    let refuse = |answer: &str, word: &str| {
        let mut session = broker.accept();
        session.next();
        session.say(answer);
        drop(session);
        let why = peer.down();
        assert!(
            why.contains("cannot be used") && why.contains(word),
            "{why}"
        );
    };
    refuse(
        "ERROR\nmessage:Bad CONNECT\n\nAccess refused for user 'mcollective'\n\0",
        "Access refused",
    );
    refuse("HTTP/1.1 400 Bad Request\r\n\r\n\0", "not a frame of STOMP");
    refuse("MESSAGE\n\n\0", "MESSAGE");
    refuse(
        "CONNECTED\n\n\0ERROR\nmessage:not_found\n\nNOT_FOUND - no exchange 'mcollective_broadcast'\0",
        "declare",
    );
    let (mut session, subscriptions) = broker.welcome(1);
    peer.up();
    assert_eq!(
        subscriptions[0].1["destination"],
        "/exchange/mcollective_broadcast/discovery"
    );
    session.say("MESSAGE\ncontent-length:1\n\nab\0");
    let why = peer.down();
    assert!(why.contains("NUL"), "{why}");
    // Of what waits, only what somebody still listens to goes out after that.
    peer.connector
        .publish(&to(&discovery()), packet("stale"), true, 0)
        .unwrap();
    peer.connector
        .publish(&to(&discovery()), packet("fresh"), true, 3600)
        .unwrap();
    let (mut session, _) = broker.welcome(1);
    peer.up();
    assert_eq!(session.next().2, b"fresh");
}
