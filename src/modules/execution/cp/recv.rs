//! Files that `salt-cp` sends within the job.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use flate2::read::GzDecoder;
use halite_wire::{Map, Value, base64};
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum size of an unpacked chunk.
const MAX_CHUNK: u64 = 256 << 20;

/// `cp.recv`.
pub fn recv(call: &mut Call<'_>) -> Result {
    let dest = PathBuf::from(call.text("dest").unwrap_or_default());
    let Value::Map(files) = call.arg("files") else {
        let class = python::type_name(call.arg("files"));
        let text = format!("'{class}' object has no attribute 'items'");
        return Err(CallError::raised("AttributeError", text));
    };
    let mut ret = Map::new();
    for (path, data) in files.iter() {
        let path = python::str(path);
        let name = path.rsplit('/').next().unwrap_or(&path);
        let same = dest.file_name().is_some_and(|own| own == name);
        let last = if dest.is_dir() {
            dest.join(name)
        } else if same || dest.parent().is_some_and(Path::is_dir) {
            dest.clone()
        } else {
            return Ok("Destination unavailable".into());
        };
        let bytes = data.as_bytes().unwrap_or_default();
        let written = std::fs::write(&last, bytes).is_ok();
        ret.set(last.to_string_lossy().as_ref(), written);
    }
    Ok(ret.into())
}

/// `cp.recv_chunked`.
pub fn recv_chunked(call: &mut Call<'_>) -> Result {
    let dest = call.text("dest").unwrap_or_default();
    match receive(call, &dest)? {
        Ok(answer) => Ok(answer),
        Err(e) => {
            call.retcode = 1.into();
            Ok(python::os_error(&e, &dest).message().into())
        }
    }
}

fn receive(call: &Call<'_>, dest: &str) -> Result<io::Result<Value>> {
    let Some(chunk) = call.arg("chunk").as_bytes() else {
        // An empty directory.
        return Ok(
            match std::fs::create_dir(dest).or_else(|_| std::fs::create_dir_all(dest)) {
                Ok(()) => Ok(true.into()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    Ok("Path exists and is a file".into())
                }
                Err(e) => Err(e),
            },
        );
    };
    let chunk = base64::decode(chunk).map_err(|why| CallError::raised("binascii.Error", why))?;
    let append = call.flag("append");
    let mode = match call.arg("mode") {
        Value::Nil => None,
        given => Some(python::int(given)?),
    };
    let compressed = call.flag("compressed");
    Ok(write(Path::new(dest), &chunk, append, compressed, mode).map(|()| true.into()))
}

fn write(
    dest: &Path,
    chunk: &[u8],
    append: bool,
    compressed: bool,
    mode: Option<i64>,
) -> io::Result<()> {
    let mut open = OpenOptions::new();
    open.create(true).append(append).write(true);
    let mut file = match open.truncate(!append).open(dest) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(dest.parent().unwrap_or(Path::new("/")))?;
            open.open(dest)?
        }
        other => other?,
    };
    let mut unpacked = Vec::new();
    let bytes = if compressed {
        GzDecoder::new(chunk)
            .take(MAX_CHUNK)
            .read_to_end(&mut unpacked)?;
        &unpacked
    } else {
        chunk
    };
    file.write_all(bytes)?;
    if let Some(mode) = mode.filter(|_| !append) {
        let mode = u32::try_from(mode).unwrap_or_default() & 0o7777;
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}
