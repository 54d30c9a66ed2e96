//! Reactor: reactions to events (`salt/utils/reactor.py`).
//!
//! Owns the map of tags to reaction files. Binds nothing; listens on `master_event_pub.ipc`, fires on
//! `master_event_pull.ipc`, publishes jobs through `ret_port` like any client. Runs if the option `reactor` is
//! set.
//!
//! On failure: there are no reactions to events that arrive while it is down. A reaction that cannot be
//! rendered or called is logged as an error; later events are handled as usual.

mod act;
mod map;

use act::Executor;
use halite_client::listen::listen;
use halite_client::runner::reactor::proof;
use halite_client::sls::{self, MasterSls};
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::{PEER, REACTOR_USER as USER};
use halite_master::roles::Roles;
use halite_render::files::SourceFile;
use halite_render::state::reaction::{compile_reactions, pad_reactions};
use halite_sys::exit::ExitError;
use halite_sys::process::add_nice;
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value, msgpack};
use map::ReactionMap;
use std::time::{Duration, Instant};

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    lower_priority(config);
    let mut reactor = Reactor {
        // Errors in it were reported when the master started: see `faults`.
        map: ReactionMap::new(&config.reactor.0).0,
        source: source(config).map_err(|why| ExitError::new(1, why))?,
        built: Instant::now(),
        leader: true,
        in_cluster: config.cluster().is_some(),
        config,
    };
    std::thread::scope(|scope| {
        let mut executor = Executor::start(scope, config, stop);
        let path = config.event_pub();
        listen(path, stop, &mut || roles.ready(), &mut |event| {
            reactor.react(&event, &mut executor)
        });
    });
    Ok(())
}

/// Faulty entries of the option `reactor`; the others are used.
pub(super) fn faults(config: &MasterConfig) -> Vec<String> {
    let (map, mut errors) = ReactionMap::new(&config.reactor.0);
    errors.extend(map.missing());
    errors
}

/// The renderer of reactions. If the master's own pillar fails, it goes on without one.
fn source(config: &MasterConfig) -> Result<MasterSls, String> {
    let host = sls::host(config, Map::new(), None).or_else(|why| {
        log::error!("{why}; reactions are rendered without a pillar");
        sls::without_pillar(config)
    });
    Ok(sls::renderer(config, &host?)?.reusing_variables())
}

/// Call it before any thread is started: it affects the calling thread and its descendants
/// (`salt/utils/reactor.py Reactor.run`).
fn lower_priority(config: &MasterConfig) {
    let Some(increment) = config.reactor_niceness.filter(|n| *n != 0) else {
        return;
    };
    match add_nice(increment) {
        Ok(now) => log::info!("the reactor runs with the nice value {now}"),
        Err(e) => log::error!("the option `reactor_niceness` {increment}: {e}; it has no effect"),
    }
}

struct Reactor<'a> {
    map: ReactionMap,
    source: MasterSls,
    /// When `source` was made.
    built: Instant,
    /// Whether this master reacts; `reactor.set_leader` changes it.
    leader: bool,
    in_cluster: bool,
    config: &'a MasterConfig,
}

impl Reactor<'_> {
    fn react(&mut self, event: &Event, executor: &mut Executor) {
        let managing = event.tag.contains("salt/reactors/manage");
        if !managing && (!self.leader || !self.map.has(&event.tag)) {
            return;
        }
        let data = match msgpack::decode(&event.payload) {
            Ok(Value::Map(data)) => data,
            Ok(_) => return,
            Err(e) => {
                log::debug!("an event tagged {} is unreadable: {e}", event.tag);
                return;
            }
        };
        // What comes from another master of the cluster is that master's to react to.
        let is_of_peer = self.in_cluster && data.contains(PEER);
        if data.str("user") == Some(USER) || is_of_peer {
            return;
        }
        if managing {
            self.manage(&event.tag, &data, executor);
            return;
        }
        let files = self.map.files(&event.tag);
        self.refresh();
        for call in self.reactions(&event.tag, &data, &files) {
            executor.take(call);
        }
    }

    /// Reloads grains and pillar when `reactor_refresh_interval` has passed.
    fn refresh(&mut self) {
        if self.built.elapsed() < Duration::from_secs(self.config.reactor_refresh_interval) {
            return;
        }
        match source(self.config) {
            Ok(source) => self.source = source,
            Err(why) => log::error!("{why}; reactions keep the old data"),
        }
        self.built = Instant::now();
    }

    /// The calls of all reaction files for an event. One faulty file stops all of them, as in Salt: they may
    /// depend on each other.
    fn reactions(&mut self, tag: &str, data: &Map, files: &[String]) -> Vec<Map> {
        let context = halite_wire::map! {"tag" => tag, "data" => data.clone()};
        let mut high = Map::new();
        for file in files {
            for found in self.find(file) {
                let shown = found.path.display().to_string();
                match self.source.render_file(&found, &context) {
                    Ok(Value::Map(mut rendered)) => {
                        pad_reactions(&mut rendered, &shown);
                        for (id, body) in rendered.0 {
                            high.0.retain(|(k, _)| *k != id);
                            high.0.push((id, body));
                        }
                    }
                    Ok(empty) if !empty.truthy() => {}
                    Ok(_) => log::error!("{shown}: a reaction file must render to a map of ids"),
                    Err(e) => log::error!("{shown}: the reaction to {tag} cannot be rendered: {e}"),
                }
            }
        }
        compile_reactions(high).unwrap_or_else(|errors| {
            log::error!(
                "none of the reactions to {tag} is run because {} is wrong: {}",
                files.join(", "),
                errors.join("; ")
            );
            Vec::new()
        })
    }

    /// The files an entry refers to: a path, a glob of paths, or a file from the file server.
    fn find(&self, entry: &str) -> Vec<SourceFile> {
        let found: Vec<SourceFile> = match entry.strip_prefix("salt://") {
            Some(url) => self.source.served_file(url).into_iter().collect(),
            None => {
                let paths = map::paths(entry).into_iter();
                paths
                    .filter_map(|path| self.source.host_file(&path))
                    .collect()
            }
        };
        if found.is_empty() {
            log::error!("there is no reaction file {entry}");
        }
        found
    }

    /// Changes requested by events that carry the master's own key (`salt/runners/reactor.py`).
    fn manage(&mut self, tag: &str, data: &Map, executor: &mut Executor) {
        let Some(action) = tag.rsplit('/').next() else {
            return;
        };
        if !["add", "delete", "list", "is_leader", "set_leader"].contains(&action) {
            return;
        }
        let account = halite_sys::process::user_name();
        let key = self.config.client_key(&account);
        let own = std::fs::read_to_string(key).unwrap_or_default();
        let equal = |given: &str, wanted: &str| {
            halite_crypto::constant_time_eq(given.as_bytes(), wanted.as_bytes())
        };
        let run = tag.split('/').nth(2).unwrap_or_default();
        let plain = format!("salt/reactors/manage/{action}");
        let proven = !own.is_empty()
            && (data
                .str("key")
                .is_some_and(|key| equal(key.trim_end(), own.trim_end()))
                || data
                    .str("proof")
                    .is_some_and(|given| equal(given, &proof(&own, run, &plain, data))));
        if !proven {
            log::error!("{tag}: ignored: the event does not carry the master's key");
            return;
        }
        let list = |map: &ReactionMap| map.to_value();
        match action {
            "add" => {
                let result = self.map.add(data.str("event"), data.get("reactors"));
                let data = halite_wire::map! {"reactors" => list(&self.map), "result" => result};
                executor.fire("salt/reactors/manage/add-complete", data);
            }
            "delete" => {
                let result = self.map.delete(data.str("event"));
                let data = halite_wire::map! {"reactors" => list(&self.map), "result" => result};
                executor.fire("salt/reactors/manage/delete-complete", data);
            }
            "list" => {
                let data = halite_wire::map! {"reactors" => list(&self.map)};
                executor.fire("salt/reactors/manage/list-results", data);
            }
            _ => {
                let mine = data.str("id") == Some(self.config.id.as_str());
                if action == "set_leader" && mine {
                    self.leader = data.get("value").is_some_and(Value::truthy);
                }
                let data = halite_wire::map! {"result" => self.leader};
                executor.fire("salt/reactors/manage/leader/value", data);
            }
        }
    }
}
