//! MQTT topics, and what a message on one of them is about (reference, section 3).

use super::names::bad;
use super::{BadName, Topic, Uuid};

/// The set of topics in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `{realm}/proc/...`, as in seed 003.
    Draft,
    /// As in current ARENA deployments: `{realm}/g/{namespace}/p/...` and `{realm}/s/{namespace}/...`.
    Scene {
        /// The namespace.
        namespace: String,
    },
}

/// A standard stream of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// `stdio/{module}` of managers: both directions on one topic.
    Both,
}

/// What a topic is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Registrations, with the uuid named in the topic.
    Reg(Option<Uuid>),
    /// Keepalives.
    Keepalive(Option<Uuid>),
    /// Requests about modules; with a uuid, sent to that runtime.
    Control(Option<Uuid>),
    /// A stream of a module.
    Stdio(Uuid, Stream),
    /// Errors reported by the orchestrator.
    Log,
    /// Notices of exits, in the older dialect.
    Notif,
    /// `profile/{kind}/{runtime}/{module}`: kind, runtime, module.
    Profile(String, Uuid, Uuid),
}

/// The topics of a realm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    realm: String,
    scheme: Scheme,
}

/// Levels below `{realm}/proc` that are reserved for the orchestrator (reference, section 3).
const RESERVED_LEVELS: [&str; 6] = ["reg", "control", "keepalive", "log", "notif", "profile"];

/// The scene for module streams when no scene is given.
const SCENE: &str = "default";

/// The rest of a topic below another one; `None` if it is not below it.
fn below<'a>(topic: &'a str, above: &str) -> Option<&'a str> {
    topic.strip_prefix(above)?.strip_prefix('/')
}

impl Topics {
    /// The topics of a realm: `realm` may have several levels.
    ///
    /// # Errors
    /// Realm or namespace cannot be part of a topic.
    pub fn new(realm: &str, scheme: Scheme) -> Result<Topics, BadName> {
        let refuse = |what, text: &str, why| Err(bad(what, text, why));
        if realm.len() > 255 {
            return refuse("realm", realm, "255 bytes at most");
        }
        realm.parse::<Topic>()?;
        if realm.split('/').any(str::is_empty) {
            return refuse("realm", realm, "no empty levels");
        }
        if let Scheme::Scene { namespace } = &scheme
            && namespace.parse::<Uuid>().is_err()
        {
            return refuse(
                "namespace",
                namespace,
                "one level of a topic, 64 characters at most",
            );
        }
        let realm = realm.into();
        Ok(Topics { realm, scheme })
    }

    /// The topics named by a configuration value: `draft`, or `scene` with a namespace.
    ///
    /// # Errors
    /// Realm or namespace cannot be part of a topic.
    pub fn by_word(realm: &str, word: &str, namespace: &str) -> Result<Topics, BadName> {
        let scheme = match word {
            "scene" => Scheme::Scene {
                namespace: namespace.to_owned(),
            },
            _ => Scheme::Draft,
        };
        Topics::new(realm, scheme)
    }

    /// Whether modules may not use a topic: those of the orchestrator and everything below them, since orchestrators
    /// subscribe to that too. Streams of modules are allowed.
    pub fn is_reserved(&self, topic: &str) -> bool {
        match self.place(topic) {
            Some(Place::Stdio(..)) => return false,
            Some(_) => return true,
            None => {}
        }
        let Some(rest) = below(topic, &self.realm) else {
            return false;
        };
        match &self.scheme {
            Scheme::Draft => {
                let room = below(rest, "proc").and_then(|rest| rest.split('/').next());
                room.is_some_and(|room| RESERVED_LEVELS.contains(&room))
            }
            // `g/{namespace}/p/...`, and `s/{namespace}/{scene}/p/...` (reference, section 3).
            Scheme::Scene { namespace } => {
                let levels = |kind| below(below(rest, kind)?, namespace);
                let global = levels("g").and_then(|rest| below(rest, "p"));
                let program = levels("s").and_then(|rest| rest.split('/').nth(1));
                global.is_some() || program == Some("p")
            }
        }
    }

    /// Filters that the orchestrator subscribes to: messages of runtimes and users, and output of modules.
    pub fn orchestrator_filters(&self) -> Vec<String> {
        let realm = &self.realm;
        match &self.scheme {
            // `#` matches the bare parent and a trailing slash too (reference, section 1).
            Scheme::Draft => ["reg", "control", "keepalive", "stdio", "io", "debug"]
                .map(|room| format!("{realm}/proc/{room}/#"))
                .to_vec(),
            Scheme::Scene { namespace } => vec![
                format!("{realm}/g/{namespace}/p/#"),
                format!("{realm}/s/{namespace}/+/p/+/+"),
                format!("{realm}/s/{namespace}/+/p/+/-/+"),
            ],
        }
    }

    /// Filters that a runtime subscribes to: answers to its registration, and requests. No wildcards, so that a broker
    /// can limit each runtime to its own topics.
    pub fn runtime_filters(&self, runtime: &Uuid) -> Vec<String> {
        let realm = &self.realm;
        match &self.scheme {
            Scheme::Draft => vec![
                format!("{realm}/proc/reg/{runtime}"),
                format!("{realm}/proc/control/{runtime}"),
            ],
            Scheme::Scene { namespace } => vec![format!("{realm}/g/{namespace}/p/{runtime}")],
        }
    }

    /// What a topic is for; `None` if it is not one of ours. A trailing slash is ignored.
    ///
    /// With [`Scheme::Scene`] a runtime has one topic for everything, which is [`Place::Control`]; the message itself
    /// says what it is about.
    pub fn place(&self, topic: &str) -> Option<Place> {
        let rest = topic.strip_prefix(self.realm.as_str())?.strip_prefix('/')?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let mut levels = rest.splitn(LEVELS + 1, '/');
        let mut next = || levels.next();
        let levels: [Option<&str>; LEVELS] = std::array::from_fn(|_| next());
        if next().is_some() {
            return None;
        }
        match &self.scheme {
            Scheme::Draft => draft(levels),
            Scheme::Scene { namespace } => scene(levels, namespace),
        }
    }

    /// The topic to publish to for a place.
    pub fn topic(&self, place: &Place) -> Topic {
        let text = match &self.scheme {
            Scheme::Draft => format!("{}/proc/{}", self.realm, in_draft(place)),
            Scheme::Scene { namespace } => in_scene(place, &self.realm, namespace),
        };
        Topic::of_parts(&text)
    }
}

/// Maximum number of levels below the realm in our topics.
const LEVELS: usize = 8;

fn draft(levels: [Option<&str>; LEVELS]) -> Option<Place> {
    let uuid = |text: &str| text.parse::<Uuid>().ok();
    let [Some("proc"), Some(room), a, b, c, None, ..] = levels else {
        return None;
    };
    Some(match (room, a, b, c) {
        ("reg", None, None, None) => Place::Reg(None),
        ("reg", Some(id), None, None) => Place::Reg(Some(uuid(id)?)),
        ("keepalive", None, None, None) => Place::Keepalive(None),
        ("keepalive", Some(id), None, None) => Place::Keepalive(Some(uuid(id)?)),
        ("control", None, None, None) => Place::Control(None),
        ("control", Some(id), None, None) => Place::Control(Some(uuid(id)?)),
        ("stdio", Some(id), None, None) => Place::Stdio(uuid(id)?, Stream::Both),
        ("io", Some(id), Some(stream), None) | ("debug", Some(stream), Some(id), None) => {
            let stream = stream.parse().ok().filter(|stream| *stream != Stream::Both);
            Place::Stdio(uuid(id)?, stream?)
        }
        ("log", None | Some("orchestrator"), None, None) => Place::Log,
        ("notif", _, None, None) => Place::Notif,
        ("profile", Some(kind), Some(runtime), Some(module)) => {
            Place::Profile(kind.into(), uuid(runtime)?, uuid(module)?)
        }
        _ => return None,
    })
}

fn scene(levels: [Option<&str>; LEVELS], namespace: &str) -> Option<Place> {
    let uuid = |text: &str| text.parse::<Uuid>().ok();
    match levels {
        [Some("g"), Some(n), Some("p"), rest @ ..] if n == namespace => match rest {
            [None, ..] => Some(Place::Control(None)),
            [Some(ORCHESTRATOR), Some("-"), Some("log"), None, ..] => Some(Place::Log),
            [Some(ORCHESTRATOR), Some("-"), Some("notif"), None, ..] => Some(Place::Notif),
            [Some(id), None, ..] => Some(Place::Control(Some(uuid(id)?))),
            [
                Some(runtime),
                Some("-"),
                Some("profile"),
                Some(kind),
                Some(module),
            ] => Some(Place::Profile(kind.into(), uuid(runtime)?, uuid(module)?)),
            _ => None,
        },
        [
            Some("s"),
            Some(n),
            Some(_),
            Some("p"),
            Some(id),
            Some("-"),
            Some(stream),
            None,
        ] if n == namespace => Some(Place::Stdio(uuid(id)?, stream.parse().ok()?)),
        [
            Some("s"),
            Some(n),
            Some(_),
            Some("p"),
            Some(_),
            Some(_),
            None,
            None,
        ] if n == namespace => Some(Place::Control(None)),
        _ => None,
    }
}

/// The level below which the orchestrator reports errors in scene topics; runtimes have no such topic.
const ORCHESTRATOR: &str = "orchestrator";

fn in_draft(place: &Place) -> String {
    let with = |room: &str, uuid: &Option<Uuid>| match uuid {
        Some(uuid) => format!("{room}/{uuid}"),
        None => room.into(),
    };
    match place {
        Place::Reg(uuid) => with("reg", uuid),
        Place::Keepalive(uuid) => with("keepalive", uuid),
        Place::Control(uuid) => with("control", uuid),
        Place::Stdio(module, Stream::Both) => format!("stdio/{module}"),
        Place::Stdio(module, stream) => format!("io/{module}/{stream}"),
        Place::Log => "log/orchestrator".into(),
        Place::Notif => "notif".into(),
        Place::Profile(kind, runtime, module) => {
            format!("profile/{}/{runtime}/{module}", level(kind))
        }
    }
}

fn in_scene(place: &Place, realm: &str, namespace: &str) -> String {
    let global = format!("{realm}/g/{namespace}/p");
    match place {
        Place::Reg(Some(id)) | Place::Keepalive(Some(id)) | Place::Control(Some(id)) => {
            format!("{global}/{id}")
        }
        Place::Reg(None) | Place::Keepalive(None) | Place::Control(None) => global,
        Place::Stdio(module, stream) => {
            format!("{realm}/s/{namespace}/{SCENE}/p/{module}/-/{stream}")
        }
        Place::Log => format!("{global}/{ORCHESTRATOR}/-/log"),
        Place::Notif => format!("{global}/{ORCHESTRATOR}/-/notif"),
        Place::Profile(kind, runtime, module) => {
            format!("{global}/{runtime}/-/profile/{}/{module}", level(kind))
        }
    }
}

/// Makes a text fit for one topic level.
fn level(text: &str) -> String {
    text.replace(|c: char| c.is_control() || "/+#".contains(c), "-")
}
