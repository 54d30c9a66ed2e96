//! The commands of `ret_port`, one row for each; no other name from the network reaches a function
//! (`salt/master.py AESFuncs.expose_methods`, `ClearFuncs.expose_methods`; reference `salt-protocol.md` 6 to
//! 8).
//!
//! The request server takes the class of a request from this table, the workers everything else.

use crate::access::rules::CallApi;
use crate::worker::aes;
use crate::worker::context::{Context, Stats};
use crate::worker::sealed::{Opened, Sealed};
use crate::worker::{
    RequestAnswer, api, auth, files, functions, mine, noise, peer, pillar, publish, syndic, tops,
};
use CallerKind::{Anyone, Minion, Peer, Service, Syndic, User};
use Handler::{Aes, AesAnswer, AesBatched, Clear};
use halite_store::files::{FileListKind, receive};
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};

/// The queue in which a request waits; none can starve another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Sign-ins, and requests for the key of publications.
    Auth,
    /// Jobs from command line clients.
    Publish,
    /// Results and events of minions.
    Return,
    /// File service.
    File,
    /// Pillar.
    Pillar,
    /// Everything else.
    Other,
    /// Requests with a password that must be checked by PAM or LDAP, which may take long.
    Login,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 7;

    /// All classes.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Auth,
        Class::Publish,
        Class::Return,
        Class::File,
        Class::Pillar,
        Class::Other,
        Class::Login,
    ];

    /// The class of a command.
    pub fn of(name: &str) -> Class {
        Command::find(name).map_or(Class::Other, |command| command.class)
    }

    /// Name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Class::Auth => "auth",
            Class::Publish => "publish",
            Class::Return => "return",
            Class::File => "file",
            Class::Pillar => "pillar",
            Class::Other => "other",
            Class::Login => "login",
        }
    }
}

/// Largest request in the clear that anyone may send, in bytes. A sign-in with a key of 8192 bits has 3 KiB, and its autosign
/// grains are a few names.
pub(crate) const MAX_SIGN_IN: usize = 64 << 10;

/// Who may call a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// Anyone who reaches the port.
    Anyone,
    /// A user admitted by [`crate::access::Access`]; the handler checks.
    User,
    /// The REST service of this master; the handler checks its key.
    Service,
    /// A minion with an accepted key.
    Minion,
    /// Such a minion, as far as the options `peer` and `peer_run` permit; the handler checks.
    Peer,
    /// Such a minion that is a syndic, if `order_masters` is set.
    Syndic,
}

/// The handler of a command.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// In the clear; called with the load and the address of the peer.
    Clear(fn(&mut Context, Map, &str) -> Result<Value, ExitError>),
    /// Under the session key, which proves the id.
    Aes(fn(&mut Context, &MinionId, Map) -> Result<Value, ExitError>),
    /// Like `Aes`; its returns and events are stored and fired together with those already waiting.
    AesBatched(fn(&mut Context, &MinionId, Map) -> Result<Value, ExitError>),
    /// Encodes the whole answer itself.
    AesAnswer(fn(&mut Context, Opened, &Sealed<'_>) -> RequestAnswer),
}

/// A row of the table.
pub(crate) struct Command {
    /// On the wire: `cmd` in the load.
    pub name: &'static str,
    /// The queue for its requests.
    pub class: Class,
    /// Who may call it.
    pub who: CallerKind,
    /// The worker's counter for it.
    pub stats: Option<fn(&mut Stats) -> &mut u64>,
    /// The handler, which also implies the frame.
    pub handler: Handler,
}

impl Command {
    /// Looks up a command by its name on the wire.
    pub fn find(name: &str) -> Option<&'static Command> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// Largest request in the clear with this command, in bytes. Nothing is known about its sender before it is decoded; what
    /// users send, such as jobs, has no limit of its own beside `max_request_size`.
    pub fn max_clear(name: &str) -> usize {
        match Command::find(name).map(|command| command.who) {
            Some(User | Service) => usize::MAX,
            _ => MAX_SIGN_IN,
        }
    }
}

/// A command without a counter of its own.
const fn row(name: &'static str, class: Class, who: CallerKind, handler: Handler) -> Command {
    Command {
        name,
        class,
        who,
        stats: None,
        handler,
    }
}

/// A command with a counter of the worker.
const fn counted(
    name: &'static str,
    class: Class,
    who: CallerKind,
    stats: fn(&mut Stats) -> &mut u64,
    handler: Handler,
) -> Command {
    Command {
        name,
        class,
        who,
        stats: Some(stats),
        handler,
    }
}

#[rustfmt::skip]
static COMMANDS: &[Command] = &[
    counted("_auth", Class::Auth, Anyone, |s| &mut s.sign_ins, Clear(|w, load, peer| auth::request(w, &load, peer))),
    row("ping", Class::Other, Anyone, Clear(|_, load, _| Ok(load.into()))),
    counted("publish", Class::Publish, User, |s| &mut s.published, Clear(publish::request)),
    row("mk_token", Class::Login, User, Clear(|w, load, peer| Ok(w.mk_token(&load, peer)))),
    row("get_token", Class::Other, User, Clear(|w, load, _| Ok(w.access.get_token(&load)))),
    row("rm_token", Class::Other, User, Clear(|w, load, _| Ok(w.rm_token(&load)))),
    row("runner", Class::Other, User, Clear(|w, load, peer| functions::request(w, CallApi::Runner, load, peer))),
    row("wheel", Class::Other, User, Clear(|w, load, peer| functions::request(w, CallApi::Wheel, load, peer))),

    row("_api", Class::Other, Service, Clear(api::request)),

    counted("_resume", Class::Auth, Minion, |s| &mut s.sign_ins, Aes(|w, id, _| noise::resume(w, id))),
    row("_aes_keys", Class::Auth, Minion, Aes(|w, _, _| aes::aes_keys(w))),
    counted("_pillar", Class::Pillar, Minion, |s| &mut s.pillars, AesAnswer(pillar::answer)),
    row("_master_opts", Class::Other, Minion, Aes(|w, _, load| Ok(aes::master_opts(w, &load)))),
    row("_master_tops", Class::Other, Minion, Aes(|w, id, load| Ok(tops::request(w, id, &load)))),
    row("_register_resources", Class::Other, Minion, Aes(|_, _, _| Ok(true.into()))),
    row("revoke_auth", Class::Other, Minion, Aes(aes::revoke_auth)),

    counted("_return", Class::Return, Minion, |s| &mut s.returns, AesBatched(aes::returned)),
    counted("_minion_event", Class::Return, Minion, |s| &mut s.events, AesBatched(aes::minion_event)),
    row("_syndic_return", Class::Return, Syndic, AesAnswer(syndic::answer)),

    row("_dir_list", Class::File, Minion, Aes(|w, _, load| Ok(w.files.list(&load, FileListKind::Dirs)))),
    row("_file_envs", Class::File, Minion, Aes(|w, _, load| Ok(w.files.envs(&load)))),
    row("_file_find", Class::File, Minion, Aes(|w, _, load| Ok(w.files.find(&load)))),
    row("_file_hash", Class::File, Minion, Aes(|w, _, load| Ok(w.files.hash(&load)?))),
    row("_file_hash_and_stat", Class::File, Minion, Aes(|w, _, load| Ok(w.files.hash_and_stat(&load)?))),
    row("_file_list", Class::File, Minion, Aes(|w, _, load| Ok(w.files.list(&load, FileListKind::Files)))),
    row("_file_list_emptydirs", Class::File, Minion, Aes(|w, _, load| Ok(w.files.list(&load, FileListKind::EmptyDirs)))),
    row("_file_recv", Class::File, Minion, Aes(|w, id, load| Ok(receive(&w.config, id, &load)?.into()))),
    row("_serve_file", Class::File, Minion, AesAnswer(files::answer)),
    row("_symlink_list", Class::File, Minion, Aes(|w, _, load| Ok(w.files.symlinks(&load)))),

    row("_mine", Class::Other, Minion, Aes(|w, id, load| mine::put(w, id, load))),
    row("_mine_delete", Class::Other, Minion, Aes(|w, id, load| mine::delete(w, id, &load))),
    row("_mine_flush", Class::Other, Minion, Aes(|w, id, _| mine::flush(w, id))),
    row("_mine_get", Class::Other, Minion, Aes(|w, id, load| mine::get(w, id, &load))),

    row("minion_pub", Class::Publish, Peer, Aes(|w, id, load| peer::publish(w, id, &load))),
    row("minion_publish", Class::Other, Peer, Aes(|w, id, load| peer::publish_and_wait(w, id, &load))),
    row("minion_runner", Class::Other, Peer, Aes(|w, id, load| peer::runner(w, id, &load))),
    row("pub_ret", Class::Return, Peer, Aes(|w, id, load| peer::fetch(w, id, &load))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn in_the_clear(command: &Command) -> bool {
        matches!(command.handler, Clear(_))
    }

    #[test]
    fn names_are_unique_and_found() {
        let mut names = HashSet::new();
        for command in COMMANDS {
            assert!(names.insert(command.name), "{} stands twice", command.name);
            let found = Command::find(command.name);
            assert!(found.is_some_and(|found| std::ptr::eq(found, command)));
            assert_eq!(Class::of(command.name), command.class);
        }
        assert!(Command::find("__class__").is_none());
        assert!(Command::find("").is_none());
        assert_eq!(Class::of("no_such_command"), Class::Other);
    }

    /// A session key proves the sender to be a minion; nothing does in the clear.
    #[test]
    fn callers_fit_the_frame() {
        for command in COMMANDS {
            let clear = match command.who {
                Anyone | User | Service => true,
                Minion | Peer | Syndic => false,
            };
            assert_eq!(in_the_clear(command), clear, "{}", command.name);
        }
    }

    /// What stock Salt exposes and nothing else, except `_aes_keys`, `_api`, `_resume` and `rm_token`, which are halite's own.
    #[test]
    fn the_set_is_closed() {
        let names = |clear| -> Vec<&str> {
            let mut names: Vec<&str> = COMMANDS
                .iter()
                .filter(|command| in_the_clear(command) == clear)
                .map(|command| command.name)
                .collect();
            names.sort_unstable();
            names
        };
        #[rustfmt::skip]
        assert_eq!(names(true), ["_api", "_auth", "get_token", "mk_token", "ping", "publish", "rm_token", "runner", "wheel"]);
        #[rustfmt::skip]
        assert_eq!(names(false), [
            "_aes_keys", "_dir_list", "_file_envs", "_file_find", "_file_hash", "_file_hash_and_stat", "_file_list",
            "_file_list_emptydirs", "_file_recv", "_master_opts", "_master_tops", "_mine", "_mine_delete",
            "_mine_flush", "_mine_get", "_minion_event", "_pillar", "_register_resources", "_resume", "_return",
            "_serve_file", "_symlink_list", "_syndic_return", "minion_pub", "minion_publish", "minion_runner", "pub_ret",
            "revoke_auth",
        ]);
    }
}
