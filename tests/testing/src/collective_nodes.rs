//! Scripted nodes of a collective at a NATS broker. They use halite's codecs, evaluate filters like Ruby's servers, and
//! behave as the name of the requested package says.

use super::authority::Authority;
use super::nats_server::NatsServer;
use halite::collective::broker::{Connector, Heard, Place, To, open};
use halite::collective::filter::{Matcher, Node as Filtered, Semantics};
use halite::collective::ruby::Datum;
use halite::collective::security::{
    Authority as Trusted, Choria, ChoriaSettings, Names, Psk, Security,
};
use halite::collective::wire::{
    AgentName, Collective, Form, Identity, Packet, PacketForm, Reply, Request,
};
use halite::config::{CollectiveGateway, load_master};
use halite::crypto::PrivateKey;
use halite::map;
use halite::wire::{Map, Value};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Shared secret of networks with PSK.
const SECRET: &str = "a secret that all of them share";
/// Agents of each node.
const AGENTS: &[&str] = &["discovery", "package", "rpcutil"];

/// The protocol of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// PSK of MCollective.
    Psk,
    /// Choria of 2016.
    G1,
    /// Choria today.
    G2,
}

/// A broker with the keys of a network.
pub struct Network {
    /// Its broker.
    pub nats: NatsServer,
    generation: Generation,
    authority: Authority,
    dir: tempfile::TempDir,
}

impl Network {
    /// A network. `None`, with a message, if `nats-server` is not installed.
    pub fn new(generation: Generation) -> Option<Network> {
        let nats = NatsServer::start(&[])?;
        let dir = super::short_dir();
        let authority = Authority::new(dir.path(), "Test CA");
        for name in ["halite.mcollective", "node.mcollective"] {
            secret(&authority.issue(name).key);
        }
        let psk = dir.path().join("psk");
        std::fs::write(&psk, SECRET).expect("a file can be written");
        secret(&psk);
        Some(Network {
            nats,
            generation,
            authority,
            dir,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Settings of a gateway, as a flow mapping without its braces.
    pub fn settings(&self) -> String {
        let file = |name: &str| self.file(name).display().to_string();
        let security = match self.generation {
            Generation::Psk => "psk",
            Generation::G1 => "choria-yaml",
            Generation::G2 => "choria",
        };
        format!(
            "servers: ['{}'], security: {security}, psk_file: {}, ca: {}, certificate: {}, key: {}, \
             identity: halite.example",
            self.nats.address(),
            file("psk"),
            self.authority.file().display(),
            file("halite.mcollective.pem"),
            file("halite.mcollective.key"),
        )
    }

    /// The security plugin of a node.
    pub fn security(&self) -> Box<dyn Security> {
        let read = |name: &str| {
            std::fs::read_to_string(self.file(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let form = match self.generation {
            Generation::Psk => {
                let caller = "user=node".parse().expect("a caller");
                let home = "mcollective".parse().expect("a collective");
                return Box::new(Psk::new(SECRET.as_bytes(), caller, home));
            }
            Generation::G1 => Form::CHORIA_YAML,
            Generation::G2 => Form::CHORIA,
        };
        let authority = std::fs::read_to_string(self.authority.file()).expect("a CA");
        let choria = Choria::new(ChoriaSettings {
            form,
            authority: Trusted::from_pem(&authority).expect("a CA"),
            certificate: read("node.mcollective.pem"),
            key: PrivateKey::from_pem(&read("node.mcollective.key")).expect("a key"),
            callers: Names::new(&[r"/\.mcollective$/"]).expect("names"),
            privileged: Names::default(),
            clock: Arc::new(now),
        });
        Box::new(choria.expect("a plugin"))
    }

    /// Settings of a connection of the node `identity`.
    pub fn connection(&self, identity: &str) -> CollectiveGateway {
        let dir = tempfile::tempdir().expect("a directory");
        let yaml = format!(
            "gateways: {{collective: {{{}}}}}\n",
            self.settings().replace("halite.example", identity)
        );
        std::fs::write(dir.path().join("master"), yaml).expect("a file can be written");
        let config = load_master(dir.path()).expect("settings");
        config.collective_gateway().expect("a gateway")
    }

    /// Starts a node in a country.
    pub fn node(&self, identity: &str, country: &str) -> Node {
        self.crowd(&[identity], country)
    }

    /// Starts nodes that share a connection.
    pub fn crowd(&self, identities: &[&str], country: &str) -> Node {
        let (says, heard) = crossbeam_channel::unbounded();
        let security = self.security();
        let connector = open(&self.connection(identities[0]), security.caller(), says);
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let about = |identity: &&str| About {
            identity: identity.parse().expect("an identity"),
            facts: map! {"country" => country, "ipaddress" => "192.168.7.9", "cores" => "4"},
            agents: AGENTS.iter().map(|a| (*a).to_owned()).collect(),
            classes: vec![format!("role::{country}")],
            collectives: vec!["mcollective".to_owned()],
        };
        let mut life = Life {
            nodes: identities.iter().map(about).collect(),
            connector: connector.expect("a connection"),
            security,
            asked: asked.clone(),
        };
        let collective: Collective = "mcollective".parse().expect("a collective");
        for agent in AGENTS {
            let agent: AgentName = agent.parse().expect("an agent");
            let all = Place::Broadcast(collective.clone(), agent);
            life.connector.subscribe(&all);
        }
        for node in &life.nodes {
            let own = Place::Node(collective.clone(), node.identity.clone());
            life.connector.subscribe(&own);
        }
        let ended = stop.clone();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match heard.recv_timeout(Duration::from_millis(20)) {
                    Ok(Heard::Packet(Some(place), packet)) => life.packet(&place, &packet),
                    Ok(_) => {}
                    Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
                    Err(e) => panic!("{e}"),
                }
            }
        });
        Node {
            asked,
            stop,
            thread: Some(thread),
        }
    }
}

fn secret(path: &Path) {
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, mode).expect("a mode can be set");
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// A request to a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Whether it went to all nodes.
    pub broadcast: bool,
    /// `agent.action`, or `discovery`.
    pub what: String,
    /// The inputs.
    pub inputs: Map,
    /// Whether its filter names identities.
    pub named: bool,
}

/// A node, which is stopped when this is dropped.
pub struct Node {
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    /// The requests with this `what` that matched the filter.
    pub fn asked(&self, what: &str) -> Vec<Asked> {
        let all = self.asked.lock().expect("no panic").clone();
        all.into_iter().filter(|asked| asked.what == what).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("a node has panicked");
        }
    }
}

/// Properties of a simulated node.
pub struct About {
    pub identity: Identity,
    pub facts: Map,
    pub agents: Vec<String>,
    pub classes: Vec<String>,
    pub collectives: Vec<String>,
}

struct Life {
    nodes: Vec<About>,
    connector: Box<dyn Connector>,
    security: Box<dyn Security>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl About {
    /// Whether the node matches the filter.
    pub fn passes(&self, matcher: &Matcher) -> bool {
        let view = Filtered {
            identity: self.identity.as_str(),
            facts: &self.facts,
            classes: &self.classes,
            agents: &self.agents,
            collectives: &self.collectives,
            agent: &|_| None,
        };
        matcher.passes(&view).expect("a filter")
    }
}

/// A body of SimpleRPC.
pub fn rpc(code: i64, text: &str, data: Map) -> Datum {
    Datum::Hash(vec![
        (Datum::symbol("statuscode"), Datum::Int(code.into())),
        (Datum::symbol("statusmsg"), text.into()),
        (Datum::symbol("data"), Datum::from(&Value::from(data))),
    ])
}

impl Life {
    fn packet(&mut self, place: &Place, packet: &Packet) {
        let (request, form) = match self.security.open_request(&packet.data) {
            Ok(opened) => opened,
            Err(e) => panic!("{place:?}: {e}"),
        };
        let matcher = Matcher::new(&request.filter, Semantics::of(form)).expect("a filter");
        for node in &self.nodes {
            let meant = match place {
                Place::Node(_, identity) => *identity == node.identity,
                _ => true,
            };
            if meant && node.passes(&matcher) {
                self.answer(node, place, &request, form, packet);
            }
        }
    }

    fn answer(&self, node: &About, place: &Place, request: &Request, form: Form, packet: &Packet) {
        let inputs = request.body.get("data").map(Datum::to_value);
        let inputs = inputs.and_then(Value::into_map).unwrap_or_default();
        let action = request.body.get("action").and_then(Datum::as_str);
        let what = match action {
            Some(action) => format!("{}.{action}", request.agent),
            None => request.agent.to_string(),
        };
        self.asked.lock().expect("no panic").push(Asked {
            broadcast: matches!(place, Place::Broadcast(..)),
            what: what.clone(),
            inputs: inputs.clone(),
            named: !request.filter.identities.is_empty(),
        });
        let body = match what.as_str() {
            "discovery" => "pong".into(),
            "rpcutil.inventory" => {
                let inventory = map! {
                    "facts" => node.facts.clone(), "agents" => node.agents.clone(),
                    "classes" => node.classes.clone(), "collectives" => node.collectives.clone(),
                    "main_collective" => "mcollective", "version" => "2.12.5",
                };
                rpc(0, "OK", inventory)
            }
            "rpcutil.ping" => rpc(0, "OK", map! {"pong" => now()}),
            "package.status" => match inputs.str("name").unwrap_or_default() {
                "silent" => return,
                "forged" => return self.forge(&node.identity, request, form, packet),
                "twice" => {
                    self.say(
                        &node.identity,
                        request,
                        form,
                        packet,
                        rpc(0, "once", Map::new()),
                    );
                    rpc(0, "again", Map::new())
                }
                name => match name.strip_prefix("code").and_then(|code| code.parse().ok()) {
                    Some(code) => rpc(code, "as you wish", map! {"name" => name}),
                    None => rpc(0, "OK", map! {"name" => name, "ensure" => "5.2"}),
                },
            },
            _ => rpc(2, "unknown action", Map::new()),
        };
        self.say(&node.identity, request, form, packet, body);
    }

    /// Sends replies in the name of others and replies to unknown requests, and finally the genuine one.
    fn forge(&self, own: &Identity, request: &Request, form: Form, packet: &Packet) {
        let lie = || rpc(0, "a lie", Map::new());
        let stranger = "stranger.example".parse().expect("an identity");
        self.say(&stranger, request, form, packet, lie());
        let mut other = request.clone();
        other.id = "0123456789abcdef0123456789abcdef".parse().expect("an id");
        self.say(own, &other, form, packet, lie());
        self.say(own, request, form, packet, rpc(0, "the truth", Map::new()));
    }

    fn say(&self, sender: &Identity, request: &Request, form: Form, packet: &Packet, body: Datum) {
        let reply = Reply {
            body,
            sender: sender.clone(),
            id: request.id.clone(),
            agent: request.agent.clone(),
            time: now(),
        };
        let data = self.security.seal_reply(&reply, form, &request.caller);
        let answer = Packet {
            form: match form {
                Form::Choria2 { .. } => PacketForm::Choria,
                _ => PacketForm::Plain,
            },
            data: data.expect("a reply can be sealed"),
            sender: Some(sender.to_string()),
            reply_to: None,
            federation: packet.federation.clone(),
            seen_by: None,
        };
        let to = To::Reply(packet.reply_to.clone().expect("a place for the answer"));
        self.connector
            .publish(&to, answer, false, 60)
            .expect("it can be sent");
    }
}
