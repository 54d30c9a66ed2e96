//! Who gets in, what is allowed, and what is said where that is not so.

use halite::arena::mqtt::{Mqtt, MqttSettings};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use testing::authority::{Authority, Issued};
use testing::mosquitto::{Peer, Rules, publication, settings};
use testing::{Mosquitto, short_dir};

#[test]
fn what_is_not_allowed_is_told_and_all_else_goes_on() {
    let rules = Rules::default()
        .user("gate", "s3cret")
        .acl("user gate\ntopic readwrite mine/#\n");
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let settings = MqttSettings {
        user: Some("gate".into()),
        password: Some("s3cret".into()),
        ..broker.settings("gate")
    };
    let filters = [("mine/#", false), ("others/#", false)];
    let one = Peer::with_room(&settings, &filters, 1000);
    one.up();
    for number in 0..60 {
        let topic = ["others/x", "mine/x"][number % 2];
        one.publish(topic, number.to_string());
    }
    assert_eq!(one.mqtt.refused(), 30);
    let connected = broker.log().matches("New client connected").count();
    assert_eq!(connected, 1, "{}", broker.log());
    for number in (1..60).step_by(2) {
        assert_eq!(one.on("mine/x").payload, number.to_string().as_bytes());
    }
    one.mqtt.subscribe("a/#/b", false);
    assert_eq!(
        one.denied(),
        ("a/#/b".to_owned(), "invalid MQTT filter".to_owned())
    );
}

#[test]
fn only_who_knows_the_password_gets_in() {
    let rules = Rules::default().user("gate", "s3cret");
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let with = |user: Option<&str>, password: Option<&str>| MqttSettings {
        user: user.map(str::to_owned),
        password: password.map(str::to_owned),
        ..broker.settings("one")
    };
    for (user, password) in [
        (None, None),
        (Some("gate"), None),
        (Some("gate"), Some("wrong")),
        (Some("nobody"), Some("s3cret")),
    ] {
        let why = Peer::open(&with(user, password), &[]).down();
        assert!(
            why.contains("cannot be used: it refuses user or password"),
            "{why}"
        );
        assert!(why.contains(&broker.address()), "{why}");
    }
    let settings = with(Some("gate"), Some("s3cret"));
    assert_eq!(
        Peer::open(&settings, &[]).up(),
        format!("mqtt://{}", broker.address())
    );
    let shown = format!("{settings:?}");
    assert!(
        !shown.contains("s3cret") && shown.contains("gate"),
        "{shown}"
    );
}

fn with_files(mut settings: MqttSettings, ca: &Path, own: Option<(&Path, &Path)>) -> MqttSettings {
    settings.tls = true;
    settings.tls_ca = ca.to_owned();
    if let Some((certificate, key)) = own {
        settings.tls_cert = certificate.to_owned();
        settings.tls_key = key.to_owned();
    }
    settings
}

#[test]
fn tls_trusts_the_own_ca_only() {
    let dir = short_dir();
    let others_dir = short_dir();
    let authority = Authority::new(dir.path(), "Test CA");
    let others = Authority::new(others_dir.path(), "Other CA");
    let of_server = authority.issue("localhost");
    let (own, foreign) = (authority.issue("gate"), others.issue("gate"));
    let rules = Rules::default()
        .tls(&authority.file(), &of_server)
        .certificates();
    let Some(broker) = Mosquitto::with(&rules) else {
        return;
    };
    let plain = Mosquitto::with(&Rules::default().tls(&authority.file(), &of_server)).unwrap();
    let cert = |issued: &Issued| (issued.certificate.clone(), issued.key.clone());
    let (own, foreign) = (cert(&own), cert(&foreign));
    let to = |broker: &Mosquitto,
              ca: &Authority,
              own: Option<&(std::path::PathBuf, std::path::PathBuf)>| {
        let own = own.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        with_files(broker.settings("gate"), &ca.file(), own)
    };
    let good = Peer::open(&to(&broker, &authority, Some(&own)), &["t"]);
    assert_eq!(good.up(), format!("mqtts://{}", broker.address()));
    good.publish("t", vec![5; 500_000]);
    assert_eq!(good.on("t").payload.len(), 500_000);
    assert_eq!(
        Peer::open(&to(&plain, &authority, None), &[]).up(),
        format!("mqtts://{}", plain.address())
    );

    let why = |settings: &MqttSettings| Peer::open(settings, &[]).down();
    let wrong_ca = why(&to(&broker, &others, Some(&own)));
    assert!(
        wrong_ca.contains("its certificate is not trusted"),
        "{wrong_ca}"
    );
    let by_number = MqttSettings {
        servers: vec![format!("127.0.0.1:{}", plain.port)],
        ..to(&plain, &authority, None)
    };
    let wrong_name = why(&by_number);
    assert!(
        wrong_name.contains("not trusted: IP address mismatch"),
        "{wrong_name}"
    );
    // Whether the alert or the end of the connection comes first is a matter of luck.
    let none = why(&to(&broker, &authority, None));
    assert!(
        none.contains("certificate required") || none.contains("it requires a client certificate"),
        "{none}"
    );
    let unknown = why(&to(&broker, &authority, Some(&foreign)));
    assert!(
        unknown.contains("unknown ca") || unknown.contains("it rejects our certificate"),
        "{unknown}"
    );
    let clear = why(&settings(&[broker.address()], "gate"));
    assert!(clear.contains("perhaps it only accepts TLS"), "{clear}");
    let not_tls = Mosquitto::start().unwrap();
    let tls = why(&to(&not_tls, &authority, None));
    assert!(tls.contains("cannot be used"), "{tls}");
}

#[test]
fn settings_that_can_never_work_are_told_at_once() {
    let dir = short_dir();
    let authority = Authority::new(dir.path(), "Test CA");
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let missing = dir.path().join("missing.pem");
    let refused = |settings: &MqttSettings, words: &[&str]| {
        let (to, _heard) = crossbeam_channel::bounded(1);
        let why = Mqtt::open(settings, to)
            .err()
            .expect("it is refused")
            .to_string();
        for word in words {
            assert!(why.contains(word), "{why}");
        }
    };
    let good = || settings(&["localhost:1883".into()], "one");
    let tls = |ca: &Path, certificate: &Path, key: &Path| {
        with_files(good(), ca, Some((certificate, key)))
    };
    refused(
        &tls(&missing, &one.certificate, &one.key),
        &["missing.pem cannot be used: No such file"],
    );
    refused(
        &tls(&authority.file(), &missing, &one.key),
        &["missing.pem cannot be used"],
    );
    refused(
        &tls(&authority.file(), &one.certificate, &missing),
        &["missing.pem cannot be used"],
    );
    refused(
        &tls(&authority.file(), &one.certificate, &other.key),
        &["other.key cannot be used", "mismatch"],
    );
    refused(
        &tls(&one.key, &one.certificate, &one.key),
        &["one.key cannot be used"],
    );
    refused(&settings(&[], "one"), &["no server is configured"]);
    refused(&settings(&["a:b".into()], "one"), &["\"a:b\" has no port"]);
    let with_will = |topic: &str, size: usize| MqttSettings {
        will: Some(publication(topic, vec![0; size])),
        ..good()
    };
    refused(&with_will("a/#", 1), &["last will", "a/#"]);
    refused(&with_will("a", 70_000), &["last will", "65535"]);
    refused(
        &MqttSettings {
            keep_alive: Duration::ZERO,
            ..good()
        },
        &["keep_alive"],
    );
    refused(
        &MqttSettings {
            max_packet: 10,
            ..good()
        },
        &["max_packet"],
    );
    refused(
        &MqttSettings {
            client_id: "x".repeat(70_000),
            ..good()
        },
        &["client_id"],
    );
}

#[test]
fn a_second_client_of_that_id_is_named_as_the_cause() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let one = broker.peer("same", &[]);
    let other = broker.peer("same", &[]);
    let why = one.down();
    assert!(
        why.contains("another client has the same client id"),
        "{why}"
    );
    drop(other);
    one.up();
    // Without a name, each gets one of its own.
    let nameless = [broker.peer("", &["t"]), broker.peer("", &["t"])];
    one.publish("t", "x");
    for peer in &nameless {
        peer.on("t");
    }
}

#[test]
fn servers_of_another_kind_are_named() {
    let answers = [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "MQTT 5"),
        // What a broker of MQTT 3.1.1 says.
        (&[0x20, 2, 0, 1], "it does not speak MQTT 5"),
        (&[0x20, 3, 0, 0x88, 0], "it is not available"),
        (
            &[0x20, 9, 0, 0x8a, 6, 0x1f, 0, 3, b'b', b'a', b'd'],
            "this client is banned (bad)",
        ),
        // More than was agreed, and nothing but a length.
        (&[0x20, 0xff, 0xff, 0xff, 0x7f], "max_packet"),
        (&[0x20, 0xff, 0xff, 0xff, 0xff], "MQTT 5"),
        (&[0x30, 2, 0, 0], "MQTT 5"),
        (&[], "it closed the connection at once"),
    ];
    for (answer, words) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 4096]).unwrap();
            assert!(read > 0);
            stream.write_all(answer).unwrap();
        });
        let one = Peer::open(&settings(&[address], "one"), &[]);
        let why = one.down();
        assert!(why.contains(words), "{why}");
        server.join().unwrap();
    }
}

#[test]
fn a_broker_that_takes_no_answers_is_not_heard_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The next connections have it too: little is on its way.
    setsockopt(&listener, RcvBuf, &4096).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 4096]).unwrap();
        assert!(read > 0);
        stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
        // Each of these wants an answer of the same size; nobody reads them.
        let releases = [0x62, 2, 0, 1].repeat(16 << 10);
        let all = 64 << 20;
        let mut written = 0;
        while written < all && stream.write_all(&releases).is_ok() {
            written += releases.len();
        }
        written < all
    });
    let settings = MqttSettings {
        // The server's thread may have to wait for its turn.
        keep_alive: Duration::from_secs(4),
        max_packet: 1024,
        ..settings(&[address], "one")
    };
    let one = Peer::open(&settings, &[]);
    one.up();
    let why = one.down();
    assert!(why.contains("it read no answers"), "{why}");
    assert!(server.join().unwrap(), "it took all without an end");
}
