//! The security plugins of a collective against those of MCollective 2.12.5 itself: what one side signs or encrypts the
//! other one opens, in both directions and both serialisers.

use halite::collective::ruby::Datum;
use halite::collective::security::{
    Aes, Authority, Callers, Names, PlainSettings, Psk, Security, Ssl,
};
use halite::collective::wire::{Filter, Form, Refused, Reply, Request, Serializer};
use halite::crypto::{PrivateKey, PublicKey};
use halite::wire::base64;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::x509::{X509, X509NameBuilder, extension::BasicConstraints};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/foreign/collective_security/security.rb"
);
const ID: &str = "b7ab52b4ac2155b19571e188e952b4aa";
const SERIALIZERS: [(Serializer, &str); 2] =
    [(Serializer::Marshal, "marshal"), (Serializer::Yaml, "yaml")];

/// MCollective's plugins in a process of Ruby.
struct Ruby {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Ruby {
    /// `None`, and a word about it, where MCollective is not installed.
    fn start() -> Option<Ruby> {
        let found = Command::new("ruby")
            .args(["-e", "require 'mcollective'"])
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no MCollective; install ruby and mcollective");
            return None;
        }
        let mut child = Command::new("ruby")
            .arg(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Some(Ruby {
            child,
            orders,
            answers,
        })
    }

    fn ask(&mut self, order: Json) -> Json {
        let orders = self.orders.as_mut().unwrap();
        writeln!(orders, "{order}").unwrap();
        orders.flush().unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).expect("an answer of the script")
    }

    fn data(&mut self, order: Json) -> Vec<u8> {
        let answer = self.ask(order);
        let data = answer["data"].as_str();
        base64::decode(data.unwrap_or_else(|| panic!("{answer}")).as_bytes()).unwrap()
    }

    /// What Ruby makes of a message.
    fn heard(&mut self, plugin: &Plugin, side: &str, data: &[u8]) -> Result<Json, String> {
        let answer = self.ask(json!({
            "plugin": plugin.name, "side": side, "settings": plugin.settings,
            "do": "decode", "data": base64::encode(data),
        }));
        match answer["refused"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(answer["heard"].clone()),
        }
    }
}

impl Drop for Ruby {
    fn drop(&mut self) {
        self.orders = None;
        self.child.wait().ok();
    }
}

/// A plugin as Ruby calls it, with its settings.
struct Plugin {
    name: &'static str,
    settings: Json,
    caller: &'static str,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn body() -> Json {
    json!({":agent": "package", ":action": "status", ":data": {":name": "bäsh\n x", ":count": 3}})
}

fn datum() -> Datum {
    let symbol = Datum::symbol;
    Datum::Hash(vec![
        (symbol("agent"), "package".into()),
        (symbol("action"), "status".into()),
        (
            symbol("data"),
            Datum::Hash(vec![
                (symbol("name"), "bäsh\n x".into()),
                (symbol("count"), Datum::Int(3)),
            ]),
        ),
    ])
}

fn request(caller: &str) -> Request {
    Request {
        body: datum(),
        sender: "client.example".parse().unwrap(),
        id: ID.parse().unwrap(),
        filter: Filter {
            agents: vec!["package".into()],
            ..Filter::default()
        },
        collective: "mcollective".parse().unwrap(),
        agent: "package".parse().unwrap(),
        caller: caller.parse().unwrap(),
        ttl: 60,
        time: now(),
    }
}

fn reply() -> Reply {
    Reply {
        body: datum(),
        sender: "node.example".parse().unwrap(),
        id: ID.parse().unwrap(),
        agent: "package".parse().unwrap(),
        time: now(),
    }
}

/// Ruby asks and we answer; we ask and Ruby answers; and neither takes what was changed on the way.
fn both_ways(ruby: &mut Ruby, plugin: &Plugin, ours: &dyn Security, form: Form) {
    let what = format!("{} {form:?}", plugin.name);
    let filter =
        json!({"fact": [], "cf_class": [], "agent": ["package"], "identity": [], "compound": []});
    let asked = ruby.data(json!({
        "plugin": plugin.name, "side": "client", "settings": plugin.settings, "do": "request",
        "body": body(), "id": ID, "filter": filter, "agent": "package", "ttl": 60,
    }));
    let (heard, heard_form) = ours.open_request(&asked).unwrap();
    assert_eq!(heard_form, form, "{what}");
    assert_eq!(heard.body, datum(), "{what}");
    assert_eq!(heard.caller.as_str(), plugin.caller, "{what}");
    assert_eq!((heard.id.as_str(), heard.ttl), (ID, 60), "{what}");
    assert!((heard.time - now()).abs() < 60, "{what}");
    let answer = ours.seal_reply(&reply(), form, &heard.caller).unwrap();
    let understood = ruby.heard(plugin, "client", &answer).unwrap();
    assert_eq!(understood[":body"], body(), "{what}");
    assert_eq!(understood[":senderid"], "node.example", "{what}");

    let asked = ours.seal_request(&request(plugin.caller)).unwrap();
    let understood = ruby.heard(plugin, "node", &asked).unwrap();
    assert_eq!(understood[":body"], body(), "{what}");
    assert_eq!(understood[":callerid"], plugin.caller, "{what}");
    assert_eq!(understood[":ttl"], 60, "{what}");
    let answer = ruby.data(json!({
        "plugin": plugin.name, "side": "node", "settings": plugin.settings, "do": "reply",
        "body": body(), "id": ID, "agent": "package", "caller": plugin.caller,
    }));
    let understood = ours.open_reply(&answer).unwrap();
    assert_eq!(understood.body, datum(), "{what}");
    assert_eq!(understood.sender.as_str(), "ruby.example", "{what}");
}

/// A key pair, and its files in a directory.
fn pair(directory: &Path, name: &str) -> PrivateKey {
    let key = PrivateKey::generate(2048).unwrap();
    std::fs::write(
        directory.join(format!("{name}-private.pem")),
        key.to_pem().as_bytes(),
    )
    .unwrap();
    std::fs::write(directory.join(format!("{name}.pem")), key.public().to_pem()).unwrap();
    key
}

fn settings(
    client: &PrivateKey,
    server: &PrivateKey,
    serializer: Serializer,
    callers: Callers,
) -> PlainSettings {
    PlainSettings {
        client: client.clone(),
        caller: "cert=rip".parse().unwrap(),
        server_public: server.public(),
        server_private: Some(server.clone()),
        callers,
        enforce_ttl: true,
        serializer,
        home: "mcollective".parse().unwrap(),
    }
}

fn one_caller(key: &PublicKey) -> Callers {
    let pem = key.to_pem();
    Box::new(move |name| (name == "rip").then(|| pem.clone()))
}

#[test]
fn psk() {
    let plugin = Plugin {
        name: "Psk",
        settings: json!({"psk": "throwaway-psk", "psk.callertype": "identity"}),
        caller: "identity=ruby.example",
    };
    let caller = "uid=0".parse().unwrap();
    let ours = Psk::new(b"throwaway-psk", caller, "mcollective".parse().unwrap());
    let Some(mut ruby) = Ruby::start() else {
        return;
    };
    both_ways(&mut ruby, &plugin, &ours, Form::Psk);
    let other = Psk::new(
        b"another",
        ours.caller().clone(),
        "mcollective".parse().unwrap(),
    );
    let asked = other.seal_request(&request("uid=0")).unwrap();
    let refused = ruby.heard(&plugin, "node", &asked).unwrap_err();
    assert!(refused.contains("SecurityValidationFailed"), "{refused}");
}

#[test]
fn ssl_and_aes() {
    let directory = tempfile::tempdir().unwrap();
    let clients = directory.path().join("clients");
    std::fs::create_dir(&clients).unwrap();
    let client = pair(directory.path(), "rip");
    let server = pair(directory.path(), "server");
    std::fs::copy(directory.path().join("rip.pem"), clients.join("rip.pem")).unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let Some(mut ruby) = Ruby::start() else {
        return;
    };
    for (serializer, word) in SERIALIZERS {
        let ssl = Plugin {
            name: "Ssl",
            settings: json!({
                "ssl_serializer": word,
                "ssl_client_private": file("rip-private.pem"), "ssl_client_public": file("rip.pem"),
                "ssl_server_private": file("server-private.pem"), "ssl_server_public": file("server.pem"),
                "ssl_client_cert_dir": clients.display().to_string(),
            }),
            caller: "cert=rip",
        };
        let known = one_caller(&client.public());
        let ours = Ssl::new(settings(&client, &server, serializer, known));
        both_ways(&mut ruby, &ssl, &ours, Form::Ssl(serializer));
        let aes = Plugin {
            name: "Aes_security",
            settings: json!({
                "aes.serializer": word,
                "aes.client_private": file("rip-private.pem"), "aes.client_public": file("rip.pem"),
                "aes.server_private": file("server-private.pem"), "aes.server_public": file("server.pem"),
                "aes.client_cert_dir": clients.display().to_string(),
            }),
            caller: "cert=rip",
        };
        let known = one_caller(&client.public());
        let keys = settings(&client, &server, serializer, known);
        let ours = Aes::new(keys, None, Arc::new(now));
        both_ways(&mut ruby, &aes, &ours, Form::Aes(serializer));
    }
}

/// A certificate of that name, signed by another or by itself.
fn certificate(name: &str, key: &PrivateKey, issuer: Option<(&X509, &PrivateKey)>) -> X509 {
    let load = |key: &PrivateKey| {
        PKey::from_rsa(Rsa::private_key_from_pem(key.to_pem().as_bytes()).unwrap()).unwrap()
    };
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut built = X509::builder().unwrap();
    built.set_version(2).unwrap();
    let serial = BigNum::from_u32(7).unwrap().to_asn1_integer().unwrap();
    built.set_serial_number(&serial).unwrap();
    built.set_subject_name(&subject).unwrap();
    let by = issuer.map_or(&*subject, |(issuer, _)| issuer.subject_name());
    built.set_issuer_name(by).unwrap();
    built.set_pubkey(&load(key)).unwrap();
    built
        .set_not_before(&Asn1Time::from_unix(now() - 3600).unwrap())
        .unwrap();
    built
        .set_not_after(&Asn1Time::from_unix(now() + 3600).unwrap())
        .unwrap();
    if issuer.is_none() {
        let rule = BasicConstraints::new().critical().ca().build().unwrap();
        built.append_extension(rule).unwrap();
    }
    let signer = load(issuer.map_or(key, |(_, key)| key));
    built.sign(&signer, MessageDigest::sha256()).unwrap();
    built.build()
}

/// `aes.send_pubkey` and `aes.learn_pubkeys` with a certificate and a CA.
#[test]
fn aes_learns_certificates_of_the_ca() {
    let directory = tempfile::tempdir().unwrap();
    let client = pair(directory.path(), "rip");
    let server = pair(directory.path(), "server");
    let authority = PrivateKey::generate(2048).unwrap();
    let ca = certificate("Throwaway CA", &authority, None);
    let own = certificate("rip.mcollective", &client, Some((&ca, &authority)));
    std::fs::write(directory.path().join("rip.pem"), own.to_pem().unwrap()).unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let plugin = Plugin {
        name: "Aes_security",
        settings: json!({
            "aes.send_pubkey": "1",
            "aes.client_private": file("rip-private.pem"), "aes.client_public": file("rip.pem"),
            "aes.server_private": file("server-private.pem"), "aes.server_public": file("server.pem"),
            "aes.client_cert_dir": file(""),
        }),
        caller: "cert=rip.mcollective",
    };
    let ours = |with: bool| {
        let keys = settings(&client, &server, Serializer::Marshal, Box::new(|_| None));
        let text = String::from_utf8(ca.to_pem().unwrap()).unwrap();
        let authority = Authority::from_pem(&text).unwrap();
        let names = Names::new(&[r"/\.mcollective$/"]).unwrap();
        Aes::new(keys, with.then_some((authority, names)), Arc::new(now))
    };
    let Some(mut ruby) = Ruby::start() else {
        return;
    };
    let asked = ruby.data(json!({
        "plugin": plugin.name, "side": "client", "settings": plugin.settings, "do": "request",
        "body": body(), "id": ID, "filter": {}, "agent": "package", "ttl": 60,
    }));
    let learning = ours(true);
    let (heard, form) = learning.open_request(&asked).unwrap();
    assert_eq!(heard.caller.as_str(), plugin.caller);
    let answer = learning.seal_reply(&reply(), form, &heard.caller).unwrap();
    let understood = ruby.heard(&plugin, "client", &answer).unwrap();
    assert_eq!(understood[":body"], body());
    let refused = ours(false).open_request(&asked);
    assert!(matches!(refused, Err(Refused::Caller(_))), "{refused:?}");
}
