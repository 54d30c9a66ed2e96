//! File commands of minions: a table from the names of the wire to the file server.

use super::context::Context;
use crate::master::roles::RoleError;
use crate::store::files::{Form, receive};
use crate::wire::ids::MinionId;
use crate::wire::{Map, Value};

/// What any minion with an accepted key may ask (`salt/master.py AESFuncs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    DirList,
    Envs,
    Find,
    Hash,
    HashAndStat,
    List,
    ListEmptyDirs,
    Recv,
    Serve,
    SymlinkList,
}

impl Command {
    /// The command of a name from the wire.
    pub fn parse(cmd: &str) -> Option<Command> {
        Some(match cmd {
            "_dir_list" => Command::DirList,
            "_file_envs" => Command::Envs,
            "_file_find" => Command::Find,
            "_file_hash" => Command::Hash,
            "_file_hash_and_stat" => Command::HashAndStat,
            "_file_list" => Command::List,
            "_file_list_emptydirs" => Command::ListEmptyDirs,
            "_file_recv" => Command::Recv,
            "_serve_file" => Command::Serve,
            "_symlink_list" => Command::SymlinkList,
            _ => return None,
        })
    }
}

/// Answers one of them; `id` is proven by the channel.
pub(super) fn request(
    worker: &mut Context,
    id: &MinionId,
    command: Command,
    load: &Map,
) -> Result<Value, RoleError> {
    let files = &mut worker.files;
    Ok(match command {
        Command::DirList => files.list(load, Form::Dirs),
        Command::Envs => files.envs(load),
        Command::Find => files.find(load),
        Command::Hash => files.hash(load)?,
        Command::HashAndStat => files.hash_and_stat(load)?,
        Command::List => files.list(load, Form::Files),
        Command::ListEmptyDirs => files.list(load, Form::EmptyDirs),
        Command::Recv => receive(&worker.config, id, load)?.into(),
        Command::Serve => files.serve(load)?,
        Command::SymlinkList => files.symlinks(load),
    })
}
