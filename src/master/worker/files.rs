//! `_serve_file`: chunks of files.

use super::RequestAnswer;
use super::context::Context;
use super::sealed::{Opened, Sealed};
use halite_store::files::Served;
use halite_sys::exit::ExitError;
use halite_wire::msgpack::{self, Profile};
use std::io;

/// Answers `_serve_file`.
pub(crate) fn answer(worker: &mut Context, opened: Opened, _: &Sealed<'_>) -> RequestAnswer {
    match serve(worker, &opened) {
        Ok(bytes) => RequestAnswer::proven(bytes),
        Err(e) => opened.failed("_serve_file", &e),
    }
}

/// The whole encrypted reply; the chunk is read into it and encrypted in place.
fn serve(worker: &mut Context, opened: &Opened) -> Result<Vec<u8>, ExitError> {
    let served = worker.files.chunk(&opened.load)?;
    let room = match &served {
        Served::Answer(answer) => msgpack::size_hint(answer),
        Served::Chunk(piece) => piece.room(),
    };
    let sealed = opened
        .cipher
        .reply_with(room, &opened.nonce, |out| match &served {
            Served::Answer(answer) => {
                msgpack::encode_into(out, answer, Profile::Wire);
                Ok::<(), io::Error>(())
            }
            Served::Chunk(piece) => piece.write(out),
        })?;
    Ok(sealed)
}
