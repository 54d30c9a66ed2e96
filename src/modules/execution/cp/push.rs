//! Sending files to the master (`_file_recv`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_target::fnmatch;
use halite_wire::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Bytes sent at once, unless set by `file_buffer_size`.
const CHUNK: i64 = 262_144;
/// Maximum bytes sent at once.
const MAX_CHUNK: i64 = 64 << 20;

/// `cp.push`.
pub fn push(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let upload = call.text("upload_path").filter(|p| !p.is_empty());
    let (links, remove) = (call.flag("keep_symlinks"), call.flag("remove_source"));
    send(call, &path, upload.as_deref(), links, remove)
}

fn send(
    call: &Call<'_>,
    path: &str,
    upload: Option<&str>,
    keep_links: bool,
    remove: bool,
) -> Result {
    let no = || Ok(false.into());
    if path.contains("../") || !path.starts_with('/') {
        return no();
    }
    let path = if keep_links {
        PathBuf::from(path)
    } else {
        std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
    };
    if !path.is_file() || upload.is_some_and(|upload| upload.contains("../")) {
        return no();
    }
    let shown = path.to_string_lossy();
    let wrong = |e: std::io::Error| python::os_error(&e, &shown);
    let mut file = File::open(&path).map_err(wrong)?;
    let size = file.metadata().map_err(wrong)?.len();
    let mut load = halite_wire::map! {
        "cmd" => "_file_recv", "id" => call.ctx.id.as_str(),
        "path" => parts(upload.unwrap_or(&shown)), "size" => size,
    };
    let chunk = call
        .ctx
        .opts
        .get("file_buffer_size")
        .and_then(Value::as_int);
    let chunk = chunk.unwrap_or(CHUNK).clamp(1, MAX_CHUNK) as u64;
    let mut at: u64 = 0;
    loop {
        let mut data = Vec::new();
        let read = Read::by_ref(&mut file).take(chunk).read_to_end(&mut data);
        read.map_err(wrong)?;
        // An empty file is sent as one empty chunk.
        if data.is_empty() && at > 0 {
            break;
        }
        let count = data.len() as u64;
        load.set("loc", at);
        load.set("data", Value::Bytes(data));
        let answer = call.ctx.master.call(&load).map_err(CallError::from)?;
        if !answer.truthy() {
            log::error!(
                "cp.push of {shown} failed: the master must have file_recv set to True, and take \
                 files of this size (file_recv_max_size)"
            );
            return Ok(answer);
        }
        at += count;
        if count == 0 {
            break;
        }
    }
    if remove && let Err(e) = std::fs::remove_file(&path) {
        log::error!("cp.push failed to remove file '{shown}': {e}");
        return no();
    }
    Ok(true.into())
}

/// The path as the list of names the master expects, with `.` and `..` resolved.
fn parts(path: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => out.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

/// `cp.push_dir`.
pub fn push_dir(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    if path.contains("../") || !path.starts_with('/') {
        return Ok(false.into());
    }
    let upload = call.text("upload_path").filter(|p| !p.is_empty());
    let path = std::fs::canonicalize(&path).unwrap_or_else(|_| PathBuf::from(&path));
    if path.is_file() {
        return send(
            call,
            &path.to_string_lossy(),
            upload.as_deref(),
            false,
            false,
        );
    }
    let glob = call.text("glob");
    let mut files = Vec::new();
    walk(&path, &mut files);
    let name = |file: &Path| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    files.retain(|file| {
        glob.as_deref()
            .is_none_or(|glob| fnmatch(&name(file), glob))
    });
    if files.is_empty() {
        return Ok(false.into());
    }
    for file in files {
        let below = file.strip_prefix(&path).unwrap_or(&file);
        let target = upload
            .as_deref()
            .map(|upload| format!("/{}/{}", upload.trim_matches('/'), below.display()));
        let sent = send(
            call,
            &file.to_string_lossy(),
            target.as_deref(),
            false,
            false,
        )?;
        if !sent.truthy() {
            return Ok(sent);
        }
    }
    Ok(true.into())
}

/// All files below a directory. Links to directories are not followed.
fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), files),
            Ok(_) if !entry.path().is_dir() => files.push(entry.path()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_for_the_master() {
        assert_eq!(parts("/a/./b/c"), ["a", "b", "c"]);
        assert_eq!(parts("x/.."), Vec::<String>::new());
        assert_eq!(parts("/.."), Vec::<String>::new());
    }
}
