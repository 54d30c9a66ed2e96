//! File commands of minions: a table from the names of the wire to the file server.

use super::context::Context;
use crate::roles::RoleError;
use halite_crypto::Crypticle;
use halite_store::files::{Form, Served, receive};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;

/// What any minion with an accepted key may ask (`salt/master.py AESFuncs`), but for pieces of files.
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
            "_symlink_list" => Command::SymlinkList,
            _ => return None,
        })
    }
}

/// Answers `_serve_file`: the whole sealed reply, into which the piece is read and where it is encrypted.
pub(super) fn serve(
    worker: &mut Context,
    load: &Map,
    crypticle: &Crypticle,
    nonce: &str,
) -> Result<Vec<u8>, RoleError> {
    let served = worker.files.piece(load)?;
    let room = match &served {
        Served::Answer(answer) => msgpack::size_hint(answer),
        Served::Piece(piece) => piece.room(),
    };
    let sealed = crypticle.text_with(room, Some(nonce), |out| match &served {
        Served::Answer(answer) => {
            msgpack::encode_into(out, answer, Profile::Wire);
            Ok::<(), io::Error>(())
        }
        Served::Piece(piece) => piece.write(out),
    })?;
    Ok(sealed)
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
        Command::SymlinkList => files.symlinks(load),
    })
}
