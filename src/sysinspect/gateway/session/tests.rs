//! The sequences of the protocol, in simulated time.

use super::*;
use crate::wire::MessageKind;

const ID: &str = "30006546535e428aba0a0caa6712e225";
const OTHER: &str = "aaaa6546535e428aba0a0caa6712e2ff";
const UUID: &str = "2407458d-fa33-419a-9e26-9e783ec17a73";

/// A key store in memory.
#[derive(Default)]
struct Store {
    known: HashMap<MachineId, (Standing, String)>,
    auto: bool,
    denied: Vec<String>,
    asked: usize,
}

impl Registry for Store {
    fn standing(&mut self, id: &MachineId) -> Standing {
        self.known.get(id).map_or(Standing::Unknown, |k| k.0)
    }

    fn register(&mut self, id: &MachineId, key: &str, _: IpAddr) -> Registered {
        if let Some((_, stored)) = self.known.get(id) {
            if stored != key {
                self.denied.push(key.to_owned());
            }
            return Registered::Taken;
        }
        let (standing, answer) = if self.auto {
            (Standing::Accepted, Registered::Accepted)
        } else {
            (Standing::Waiting, Registered::Waiting)
        };
        self.known.insert(id.clone(), (standing, key.to_owned()));
        answer
    }

    fn proves(&mut self, id: &MachineId, cipher: &[u8]) -> bool {
        self.asked += 1;
        cipher == format!("cipher of {id}").as_bytes()
    }
}

/// Sessions with their clock and store.
struct Scene {
    sessions: Sessions,
    store: Store,
    now: Instant,
    next: ConnId,
}

fn id(text: &str) -> MachineId {
    text.parse().unwrap()
}

impl Scene {
    fn new() -> Scene {
        let rules = Rules {
            ping_interval: Duration::from_secs(5),
            session_timeout: Duration::from_secs(30),
            hello_timeout: Duration::from_secs(10),
            max_connections: 20,
            max_strangers: 5,
            registrations_per_minute: 3,
        };
        let now = Instant::now();
        Scene {
            sessions: Sessions::new(rules, now),
            store: Store::default(),
            now,
            next: 1,
        }
    }

    fn accept(&mut self, text: &str) {
        let known = (Standing::Accepted, "key".to_owned());
        self.store.known.insert(id(text), known);
    }

    fn connect_from(&mut self, dialect: Dialect, address: [u8; 4]) -> Option<ConnId> {
        let conn = self.next;
        self.next += 1;
        let open = self.sessions.opened(conn, address.into(), self.now);
        self.sessions.set_dialect(conn, dialect);
        open.then_some(conn)
    }

    fn connect(&mut self, dialect: Dialect) -> ConnId {
        self.connect_from(dialect, [10, 0, 0, 1]).unwrap()
    }

    fn says(&mut self, conn: ConnId, who: &str, heard: Inbound) -> Vec<Action> {
        let frame = Frame::Message(id(who), heard);
        self.sessions.frame(conn, frame, self.now, &mut self.store)
    }

    fn hello(&mut self, conn: ConnId, who: &str) -> Vec<Action> {
        self.says(conn, who, hello(None))
    }

    /// Connects a minion and starts its session.
    fn member(&mut self, who: &str) -> ConnId {
        self.accept(who);
        let conn = self.connect(Dialect::Modern);
        let said = self.hello(conn, who);
        assert!(said.contains(&Action::Came(id(who), IpAddr::from([10, 0, 0, 1]))));
        conn
    }

    fn passes(&mut self, seconds: u64) -> Vec<Action> {
        self.now += Duration::from_secs(seconds);
        self.sessions.tick(self.now, &mut self.store)
    }
}

fn hello(cipher: Option<&str>) -> Inbound {
    Inbound::Hello {
        session: UUID.to_owned(),
        cipher: cipher.map(|c| c.as_bytes().to_vec()),
        traits: None,
    }
}

fn say(conn: ConnId, say: Outbound) -> Action {
    Action::Send(conn, id(ID), say)
}

fn last(conn: ConnId, words: Outbound) -> Vec<Action> {
    vec![say(conn, words), Action::Close(conn)]
}

#[test]
fn hello_of_a_stranger_and_of_a_member() {
    for dialect in [Dialect::Seed, Dialect::E1, Dialect::Modern] {
        let mut scene = Scene::new();
        let conn = scene.connect(dialect);
        let expected = last(conn, Outbound::Undefined(Code::NotRegistered));
        assert_eq!(scene.hello(conn, ID), expected);
        // Its other messages are ignored.
        assert_eq!(scene.hello(conn, ID), []);
        assert_eq!(scene.sessions.closed(conn), []);
        scene.accept(ID);
        let conn = scene.connect(dialect);
        let address = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(
            scene.hello(conn, ID),
            [
                say(conn, Outbound::Welcome(UUID.to_owned())),
                Action::Came(id(ID), address)
            ]
        );
        assert_eq!(scene.sessions.find(ID).unwrap().0, conn);
        assert_eq!(scene.sessions.closed(conn), [Action::Left(id(ID))]);
        assert!(scene.sessions.find(ID).is_none());
        assert_eq!(scene.sessions.connections(), 0);
    }
}

#[test]
fn traits_come_with_a_late_hello() {
    let mut scene = Scene::new();
    scene.accept(ID);
    let conn = scene.connect(Dialect::Modern);
    let traits = halite_wire::map! {"system.hostname" => "web"};
    let heard = Inbound::Hello {
        session: UUID.to_owned(),
        cipher: None,
        traits: Some(traits.clone()),
    };
    let said = scene.says(conn, ID, heard.clone());
    assert_eq!(said.last(), Some(&Action::Traits(id(ID), traits.clone())));
    // A second hello on the same connection is no duplicate.
    let said = scene.says(conn, ID, heard);
    assert_eq!(said.last(), Some(&Action::Traits(id(ID), traits)));
    assert_eq!(said[0], say(conn, Outbound::Welcome(UUID.to_owned())));
}

#[test]
fn registration_of_the_programs() {
    for dialect in [Dialect::E1, Dialect::Modern] {
        let mut scene = Scene::new();
        let conn = scene.connect(dialect);
        let said = scene.says(conn, ID, Inbound::Add("pem".to_owned()));
        assert!(matches!(
            &said[..],
            [
                Action::Send(_, _, Outbound::Retry(Code::Success, _)),
                Action::Close(_)
            ]
        ));
        // The operator has not decided yet.
        let conn = scene.connect(dialect);
        let expected = last(conn, Outbound::Undefined(Code::NotRegistered));
        assert_eq!(scene.hello(conn, ID), expected);
        // The same key again, and another one, which is stored as denied: one answer.
        for (key, denied) in [("pem", 0), ("other", 1)] {
            let conn = scene.connect(dialect);
            let said = scene.says(conn, ID, Inbound::Add(key.to_owned()));
            let expected = Outbound::Retry(Code::AlreadyRegistered, "already registered");
            assert_eq!(said, last(conn, expected));
            assert_eq!(scene.store.denied.len(), denied);
        }
        scene.accept(ID);
        let conn = scene.connect_from(dialect, [10, 0, 0, 2]).unwrap();
        assert!(matches!(
            scene.hello(conn, ID)[0],
            Action::Send(_, _, Outbound::Welcome(_))
        ));
    }
}

#[test]
fn registration_without_a_key() {
    let mut scene = Scene::new();
    let conn = scene.connect(Dialect::Modern);
    let said = scene.says(conn, ID, Inbound::Add(String::new()));
    let expected = Outbound::Retry(Code::GeneralFailure, "not an RSA public key");
    assert_eq!(said, last(conn, expected));
    assert!(scene.store.known.is_empty());
}

#[test]
fn registration_of_the_seed() {
    for auto in [false, true] {
        let mut scene = Scene::new();
        scene.store.auto = auto;
        let conn = scene.connect(Dialect::Seed);
        let said = scene.says(conn, ID, Inbound::Add(String::new()));
        assert_eq!(said, [say(conn, Outbound::MasterKey)]);
        assert!(scene.store.known.is_empty());
        let cipher = format!("cipher of {ID}");
        let said = scene.says(conn, ID, hello(Some(&cipher)));
        if auto {
            assert_eq!(said[0], say(conn, Outbound::Welcome(UUID.to_owned())));
            continue;
        }
        assert_eq!(said, last(conn, Outbound::Undefined(Code::NotRegistered)));
        assert_eq!(scene.store.standing(&id(ID)), Standing::Waiting);
        // It is known now: greeted, not registered again.
        let conn = scene.connect(Dialect::Seed);
        let said = scene.says(conn, ID, Inbound::Add(String::new()));
        let expected = Outbound::Retry(Code::AlreadyRegistered, "already registered");
        assert_eq!(said, last(conn, expected));
    }
}

#[test]
fn every_wrong_proof_is_answered_alike_and_late() {
    let right = format!("cipher of {ID}");
    let cases = [
        (ID, Some("rubbish".to_owned())),
        (ID, Some(format!("cipher of {OTHER}"))),
        (ID, None),
        (OTHER, Some(right)),
        (OTHER, Some(format!("cipher of {OTHER}"))),
    ];
    for (who, cipher) in cases {
        let mut scene = Scene::new();
        let conn = scene.connect(Dialect::Seed);
        scene.says(conn, ID, Inbound::Add(String::new()));
        assert_eq!(scene.says(conn, who, hello(cipher.as_deref())), []);
        assert_eq!(scene.store.asked, 1, "the same work in every case");
        assert_eq!(scene.passes(0), []);
        // Nothing sent meanwhile helps.
        assert_eq!(scene.says(conn, ID, hello(None)), []);
        let undefined = Outbound::Undefined(Code::GeneralFailure);
        let expected = vec![Action::Send(conn, id(who), undefined), Action::Close(conn)];
        assert_eq!(scene.passes(1), expected);
        assert!(scene.store.known.is_empty());
    }
    // An accepted minion that sends a cipher must send the right one.
    let mut scene = Scene::new();
    scene.accept(ID);
    let conn = scene.connect(Dialect::Seed);
    assert_eq!(scene.says(conn, ID, hello(Some("rubbish"))), []);
    let conn = scene.connect(Dialect::Seed);
    let cipher = format!("cipher of {ID}");
    assert!(!scene.says(conn, ID, hello(Some(&cipher))).is_empty());
}

#[test]
fn another_program_with_the_same_id_is_the_duplicate() {
    let mut scene = Scene::new();
    let first = scene.member(ID);
    for other in ["d58026a2-5ecd-4cfc-a7e3-799176ccd2f3", ""] {
        let second = scene.connect(Dialect::Modern);
        let heard = Inbound::Hello {
            session: other.to_owned(),
            cipher: None,
            traits: None,
        };
        let expected = last(second, Outbound::Duplicate(other.to_owned()));
        assert_eq!(scene.says(second, ID, heard), expected);
        assert_eq!(scene.sessions.closed(second), []);
        assert_eq!(scene.sessions.find(ID).unwrap().0, first);
    }
    // The session ends with its connection, and the minion may reconnect at once.
    scene.sessions.closed(first);
    let third = scene.connect(Dialect::Modern);
    assert_eq!(scene.hello(third, ID).len(), 2);
}

/// What a minion of 2026 does whose modules cannot be fetched: its old process still answers pings.
#[test]
fn a_minion_that_connects_again_replaces_its_ghost() {
    let mut scene = Scene::new();
    let mut ghost = scene.member(ID);
    for n in 0..26 {
        let conn = scene.connect(Dialect::Modern);
        let expected = [
            Action::Close(ghost),
            Action::Left(id(ID)),
            say(conn, Outbound::Welcome(UUID.to_owned())),
            Action::Came(id(ID), IpAddr::from([10, 0, 0, 1])),
        ];
        assert_eq!(scene.hello(conn, ID), expected);
        assert_eq!(scene.sessions.find(ID).unwrap().0, conn);
        // The ghost speaks for nobody, and its end is not that of the session.
        assert_eq!(scene.says(ghost, ID, Inbound::Pong(Vec::new())), []);
        if n % 2 == 0 {
            assert_eq!(scene.sessions.closed(ghost), []);
        }
        assert_eq!(scene.sessions.sessions(), 1);
        if n % 2 == 1 {
            scene.sessions.closed(ghost);
        }
        ghost = conn;
    }
    scene.sessions.closed(ghost);
    assert_eq!(scene.sessions.connections(), 0);
    assert!(scene.sessions.strangers.is_empty());
}

#[test]
fn a_pong_begins_no_session() {
    let mut scene = Scene::new();
    scene.accept(ID);
    let conn = scene.connect(Dialect::E1);
    for heard in [
        Inbound::Pong(Vec::new()),
        Inbound::Stray(MessageKind::Cmd),
        Inbound::Traits(halite_wire::map! {"a" => 1}),
    ] {
        assert_eq!(scene.says(conn, ID, heard), []);
    }
    assert_eq!(scene.sessions.sessions(), 0);
    assert_eq!(scene.passes(5), []);
}

#[test]
fn pings_and_the_end_of_a_session() {
    let mut scene = Scene::new();
    let conn = scene.member(ID);
    for _ in 0..8 {
        assert_eq!(scene.passes(5), [say(conn, Outbound::Ping)]);
        let pong = Inbound::Pong(Vec::new());
        let expected = [Action::Inbound(id(ID), pong.clone())];
        assert_eq!(scene.says(conn, ID, pong), expected);
    }
    // It goes silent.
    for _ in 0..5 {
        assert_eq!(scene.passes(5), [say(conn, Outbound::Ping)]);
    }
    let expected = [Action::Close(conn), Action::Left(id(ID))];
    assert_eq!(scene.passes(5), expected);
    assert_eq!(scene.sessions.stats.expired, 1);
}

#[test]
fn the_operator_ends_a_session() {
    let mut scene = Scene::new();
    let conn = scene.member(ID);
    let gone = || {
        vec![
            say(conn, Outbound::Undefined(Code::NotRegistered)),
            Action::Close(conn),
            Action::Left(id(ID)),
        ]
    };
    assert_eq!(scene.sessions.review(&id(ID), &mut scene.store), []);
    scene.store.known.clear();
    assert_eq!(scene.sessions.review(&id(ID), &mut scene.store), gone());
    assert_eq!(scene.sessions.review(&id(ID), &mut scene.store), []);
    // Without an event, the next heartbeat ends it.
    scene.sessions.closed(conn);
    let conn = scene.member(ID);
    scene
        .store
        .known
        .insert(id(ID), (Standing::Rejected, String::new()));
    let said = scene.passes(5);
    assert_eq!(said[0], say(conn, Outbound::Undefined(Code::NotRegistered)));
}

#[test]
fn unregistration_ends_the_session() {
    let mut scene = Scene::new();
    let conn = scene.member(ID);
    let said = scene.sessions.dismiss(&id(ID));
    assert_eq!(said, [Action::Close(conn), Action::Left(id(ID))]);
    assert_eq!(scene.sessions.dismiss(&id(ID)), []);
    assert_eq!(scene.sessions.closed(conn), []);
    assert!(scene.sessions.strangers.is_empty());
}

#[test]
fn ids_of_others_are_not_let_in() {
    let mut scene = Scene::new();
    let foreign = (Standing::Foreign, "salt".to_owned());
    scene.store.known.insert(id(ID), foreign);
    let conn = scene.connect(Dialect::Modern);
    let expected = last(conn, Outbound::Undefined(Code::NotRegistered));
    assert_eq!(scene.hello(conn, ID), expected);
    let conn = scene.connect(Dialect::Seed);
    let said = scene.says(conn, ID, Inbound::Add(String::new()));
    let expected = Outbound::Retry(Code::AlreadyRegistered, "already registered");
    assert_eq!(said, last(conn, expected));
    // A session speaks for its own id only.
    let conn = scene.member(OTHER);
    assert_eq!(scene.says(conn, ID, Inbound::Pong(Vec::new())), []);
    assert_eq!(scene.sessions.stats.garbage, 1);
}

#[test]
fn silent_connections_and_garbage() {
    let mut scene = Scene::new();
    let conn = scene.connect(Dialect::Seed);
    let other = scene.connect(Dialect::Seed);
    scene.says(other, ID, Inbound::Add(String::new()));
    assert_eq!(scene.passes(9), []);
    let mut closed = scene.passes(1);
    closed.sort_by_key(|action| format!("{action:?}"));
    assert_eq!(closed, [Action::Close(conn), Action::Close(other)]);
    let conn = scene.connect(Dialect::Seed);
    let mut said = Vec::new();
    for _ in 0..PATIENCE {
        assert_eq!(said, []);
        said = scene
            .sessions
            .frame(conn, Frame::Garbage, scene.now, &mut scene.store);
    }
    assert_eq!(said, [Action::Close(conn)]);
}

#[test]
fn the_secure_transport_is_refused() {
    let mut scene = Scene::new();
    let conn = scene.connect(Dialect::Modern);
    let said = scene
        .sessions
        .frame(conn, Frame::Secure, scene.now, &mut scene.store);
    assert_eq!(said, [Action::Refuse(conn), Action::Close(conn)]);
}

#[test]
fn floods() {
    let mut scene = Scene::new();
    // Idle connections from one address.
    let conns: Vec<_> = (0..6)
        .map(|_| scene.connect_from(Dialect::Seed, [10, 0, 0, 1]))
        .collect();
    assert_eq!(conns.iter().flatten().count(), 5);
    let other = scene.connect_from(Dialect::Seed, [10, 0, 0, 2]);
    assert!(other.is_some());
    for conn in conns.into_iter().flatten() {
        scene.sessions.closed(conn);
    }
    // Registrations.
    for n in 0..4 {
        let conn = scene.connect(Dialect::Modern);
        let said = scene.says(conn, &format!("id{n}"), Inbound::Add("pem".to_owned()));
        scene.sessions.closed(conn);
        let Action::Send(_, _, Outbound::Retry(code, _)) = &said[0] else {
            panic!("{said:?}");
        };
        assert_eq!(*code == Code::Success, n < 3, "{n}");
    }
    assert_eq!(scene.store.known.len(), 3);
    // Connections with a session do not count as strangers.
    for n in 0..10 {
        scene.member(&format!("m{n}"));
    }
    assert_eq!(scene.sessions.strangers.len(), 1);
}

#[test]
fn sensors_and_byes() {
    let mut scene = Scene::new();
    let conn = scene.member(ID);
    let said = scene.says(conn, ID, Inbound::Sensors);
    assert_eq!(said, [say(conn, Outbound::NoSensors)]);
    let said = scene.says(conn, ID, Inbound::Bye);
    assert_eq!(
        said,
        [
            say(conn, Outbound::ByeAck),
            Action::Close(conn),
            Action::Left(id(ID))
        ]
    );
}
