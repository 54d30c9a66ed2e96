//! `cp`: files from the file server and the web, and files for the master (`salt/modules/cp.py`).

mod push;
mod recv;

use super::declare::{Arg, Function, Module, Result, args};
use super::{Call, CallError, python};
use crate::execution::templates;
use crate::files::{Downloaded, FileClient, FileFilter, GetFile, GetUrl, MAX_CONTENT, url};
use crate::pillar;
use crate::render;
use halite_channel::pillar_request::PillarQuery;
use halite_sys::daemon::write_atomic;
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

const CACHE_FILE: &[Arg] = args![
    path,
    saltenv = None,
    source_hash = None,
    verify_ssl = True,
    use_etag = False
];

pub(super) const MODULE: Module = Module {
    name: "cp",
    functions: &[
        Function::new("cache_dest", cache_dest, "The path a file has in the cache once it is cached.")
            .args(args![url, saltenv = None]),
        Function::new("cache_dir", cache_dir, "Caches a directory of the file server; globs, or regular expressions after E@, select files.")
            .args(args![path, saltenv = None, include_empty = False, include_pat = None, exclude_pat = None]),
        Function::new("cache_file", cache_file, "Caches a file and returns its path, or false.")
            .args(CACHE_FILE),
        Function::new("cache_file_ssh", cache_file, "Alias of cp.cache_file.").inner("cache_file").args(CACHE_FILE),
        Function::new("cache_files", cache_files, "Caches several files, given as a list or comma-separated text.")
            .args(args![paths, saltenv = None]),
        Function::new("cache_local_file", cache_local_file, "Copies a file on this minion to the cache.").args(args![path]),
        Function::new("cache_master", cache_master, "Caches all files of an environment.")
            .args(args![saltenv = None]),
        Function::new("envs", |call| Ok(client(call)?.envs()?.into()), "The environments of the file server."),
        Function::new("get_dir", get_dir, "Copies a directory of the file server below dest.")
            .args(args![path, dest, saltenv = None, template = None, gzip = None])
            .keywords(),
        Function::new("get_file", get_file, "Copies a file from the file server; gzip, from 1 to 9, compresses the transfer.")
            .args(args![path, dest, saltenv = None, makedirs = False, template = None, gzip = None])
            .keywords(),
        Function::new("get_file_str", get_file_str, "The content of a file, through the cache, or false.")
            .args(args![path, saltenv = None]),
        Function::new("get_template", get_template, "Renders a file from the file server and writes the result to dest.")
            .args(args![path, dest, template = "jinja", saltenv = None, makedirs = False])
            .keywords(),
        Function::new("get_url", get_url, "Fetches a file from any URL to dest; without dest to the cache, with dest None it returns the content.")
            .args(args![path, dest = "", saltenv = None, makedirs = False, source_hash = None]),
        Function::new("hash_file", hash_file, "The hash of a file on the file server, or of a local file by its path.")
            .args(args![path, saltenv = None]),
        Function::new("hash_file_ssh", hash_file, "Alias of cp.hash_file.").inner("hash_file").args(args![path, saltenv = None]),
        Function::new("is_cached", is_cached, "The cached path of a file, or nothing.").args(args![path, saltenv = None]),
        Function::new("list_master", list_master, "Paths of the files on the file server.")
            .args(args![saltenv = None, prefix = ""]),
        Function::new("list_master_dirs", list_master_dirs, "Paths of the directories on the file server.")
            .args(args![saltenv = None, prefix = ""]),
        Function::new("list_master_symlinks", list_master_symlinks, "Symbolic links on the file server and their targets.")
            .args(args![saltenv = None, prefix = ""]),
        Function::new("list_minion", list_minion, "Paths of the files in the cache.").args(args![saltenv = None]),
        Function::new("list_states", list_states, "Names of the SLS files on the file server.").args(args![saltenv = None]),
        Function::new("push", push::push, "Sends a file to the master, which stores it below its minions directory; the master must allow it with file_recv.")
            .args(args![path, keep_symlinks = False, upload_path = None, remove_source = False]),
        Function::new("push_dir", push::push_dir, "Sends the files of a directory to the master, or those that match a glob.")
            .args(args![path, glob = None, upload_path = None]),
        Function::new("recv", recv::recv, "Receives files from salt-cp: content by name.").args(args![files, dest]),
        Function::new("recv_chunked", recv::recv_chunked, "Receives a chunk of a file from salt-cp.")
            .args(args![dest, chunk, append = False, compressed = True, mode = None]),
        Function::new("stat_file", stat_file, "The mode of a file on the file server, or of a local file by its path.")
            .args(args![path, saltenv = None, octal = True]),
    ],
};

fn client(call: &Call<'_>) -> Result<FileClient> {
    Ok(FileClient::new(call.ctx)?)
}

/// `saltenv`, else the minion's environment, else `base`.
pub(super) fn saltenv(call: &Call<'_>, given: &Value) -> String {
    let own = || call.ctx.opts.str("saltenv").filter(|env| !env.is_empty());
    if given.truthy() {
        python::str(given)
    } else {
        own().unwrap_or("base").to_owned()
    }
}

fn env(call: &Call<'_>) -> String {
    saltenv(call, call.arg("saltenv"))
}

fn path(call: &Call<'_>) -> String {
    call.text("path").unwrap_or_default()
}

fn path_or(found: Option<PathBuf>, none: impl Into<Value>) -> Value {
    found.map_or_else(
        || none.into(),
        |path| path.to_string_lossy().as_ref().into(),
    )
}

fn path_list(found: Vec<PathBuf>) -> Value {
    Value::Array(
        found
            .into_iter()
            .map(|path| path_or(Some(path), ""))
            .collect(),
    )
}

/// `path` and `dest`, rendered if there is a `template`.
fn names(call: &Call<'_>) -> Result<(String, String)> {
    let (path, dest) = (path(call), call.text("dest").unwrap_or_default());
    let Some(format) = call.text("template").filter(|t| !t.is_empty()) else {
        return Ok((path, dest));
    };
    let saltenv = env(call);
    let failed = "Failed to render file path with error";
    let rendered = |text: &str| rendered_text(call, &format, text, &saltenv, failed);
    Ok((rendered(&path)?, rendered(&dest)?))
}

/// A short text such as a name, rendered with the keywords `pillar` and `pillarenv`. `failed` starts the error
/// message.
pub(super) fn rendered_text(
    call: &Call<'_>,
    format: &str,
    text: &str,
    saltenv: &str,
    failed: &str,
) -> Result<String> {
    if !render::is_template(format) {
        return Err(CallError::Command(format!(
            "Attempted to render file paths with unavailable engine {format}"
        )));
    }
    let mut variables = Map::new();
    let given = |key: &str| call.bound.kwargs.get(key).is_some();
    if given("pillar") || given("pillarenv") {
        variables.set("pillar", pillar_with(call)?);
    }
    let template = render::Template {
        format,
        text,
        saltenv,
        variables: &variables,
    };
    templates::template(call.ctx, &template)?
        .map_err(|why| CallError::Command(format!("{failed}: {why}")))
}

/// The pillar, recompiled with the keywords `pillar` and `pillarenv` (`_gather_pillar`).
pub(super) fn pillar_with(call: &Call<'_>) -> Result<Map> {
    let mut query = PillarQuery::of(&call.ctx.opts);
    if let Some(env) = call.bound.kwargs.get("pillarenv") {
        query.pillarenv = env.as_str().map(str::to_owned);
    }
    if let Some(Value::Map(over)) = call.bound.kwargs.get("pillar") {
        query.pillar_override = over.clone();
    }
    let mut pillar = pillar::compile_fresh(call.ctx, &query, super::template_functions)?;
    for (key, value) in query.pillar_override.iter() {
        pillar.set(python::str(key), value.clone());
    }
    Ok(pillar)
}

/// Renders a file as a template; `None` if the file or the template engine does not exist.
pub(super) fn rendered(
    call: &Call<'_>,
    address: &str,
    format: &str,
    saltenv: &str,
    variables: &Map,
) -> Result<Option<String>> {
    let cached = client(call)?.cache_file(address, saltenv)?;
    let Some(text) = cached
        .and_then(|file| read_finite(&file, MAX_CONTENT).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return Ok(None);
    };
    // `context` holds more variables (`salt/utils/templates.py render_tmpl`).
    let mut variables = variables.clone();
    if let Some(Value::Map(context)) = variables.remove("context") {
        for (key, value) in context.0 {
            variables.set(python::str(&key), value);
        }
    }
    let template = render::Template {
        format,
        text: &text,
        saltenv,
        variables: &variables,
    };
    match templates::template(call.ctx, &template)? {
        Ok(text) => Ok(Some(text)),
        Err(why) => {
            log::error!("Failed to render template with error: {why}");
            Ok(None)
        }
    }
}

fn gzip(call: &Call<'_>) -> Option<i64> {
    match call.arg("gzip") {
        Value::Nil => None,
        given => python::int(given).ok(),
    }
}

fn get_file(call: &mut Call<'_>) -> Result {
    let (path, dest) = names(call)?;
    let saltenv = env(call);
    let client = client(call)?;
    // Stock takes the error text for a missing path as a digest.
    if path.starts_with(url::SCHEME) && client.hash(&path, &saltenv)?.is_none() {
        return Ok("".into());
    }
    let got = client.get_file(&GetFile {
        dest: &dest,
        makedirs: call.flag("makedirs"),
        gzip: gzip(call),
        ..GetFile::new(&path, &saltenv)
    })?;
    Ok(path_or(got, false))
}

fn get_dir(call: &mut Call<'_>) -> Result {
    let (path, dest) = names(call)?;
    let got = client(call)?.get_dir(&path, &dest, &env(call), gzip(call))?;
    Ok(got.into())
}

fn get_template(call: &mut Call<'_>) -> Result {
    let (path, saltenv) = (path(call), env(call));
    let format = call.text("template").unwrap_or_default();
    let variables = call.bound.kwargs.clone();
    let Some(text) = rendered(call, &path, &format, &saltenv, &variables)? else {
        return Ok("".into());
    };
    let given = call.text("dest").filter(|dest| !dest.is_empty());
    let dest = match &given {
        Some(dest) => PathBuf::from(dest),
        None => match client(call)?.extrn_path(&path, &saltenv, None) {
            Some(dest) => dest,
            None => return Ok("".into()),
        },
    };
    let dir = dest.parent().unwrap_or(Path::new("/"));
    let wrong = |e: std::io::Error| python::os_error(&e, &dest.to_string_lossy());
    if !dir.is_dir() {
        if given.is_some() && !call.flag("makedirs") {
            return Ok("".into());
        }
        std::fs::create_dir_all(dir).map_err(wrong)?;
    }
    let dest = if dest.is_dir() {
        return Err(wrong(std::io::Error::from_raw_os_error(nix::libc::EISDIR)));
    } else {
        dest.clone()
    };
    // Stock moves a temporary file there, so the mode is the temporary file's.
    write_atomic(&dest, text.as_bytes(), 0o600).map_err(wrong)?;
    Ok(path_or(Some(dest), ""))
}

fn get_url(call: &mut Call<'_>) -> Result {
    let (path, saltenv) = (path(call), env(call));
    let hash = call.text("source_hash");
    let got = client(call)?.get_url(&GetUrl {
        dest: call.arg("dest").as_str(),
        makedirs: call.flag("makedirs"),
        source_hash: hash.as_deref(),
        ..GetUrl::new(&path, &saltenv)
    })?;
    match got {
        Some(Downloaded::File(file)) => Ok(path_or(Some(file), false)),
        Some(Downloaded::Content(content)) => text(content),
        None if path.starts_with(url::SCHEME) => Ok(false.into()),
        None => Ok("".into()),
    }
}

fn text(content: Vec<u8>) -> Result {
    match String::from_utf8(content) {
        Ok(text) => Ok(text.into()),
        Err(e) => Err(CallError::raised("UnicodeDecodeError", e.to_string())),
    }
}

fn get_file_str(call: &mut Call<'_>) -> Result {
    let Some(file) = client(call)?.cache_file(&path(call), &env(call))? else {
        return Ok(false.into());
    };
    match read_finite(&file, MAX_CONTENT) {
        Ok(content) => text(content),
        Err(_) => Ok(false.into()),
    }
}

fn cache_file(call: &mut Call<'_>) -> Result {
    let (path, saltenv) = (path(call), env(call));
    let hash = call.text("source_hash");
    let got = client(call)?.get_url(&GetUrl {
        source_hash: hash.as_deref(),
        verify_ssl: call.flag("verify_ssl"),
        use_etag: call.flag("use_etag"),
        ..GetUrl::new(&path, &saltenv)
    })?;
    match got {
        Some(Downloaded::File(file)) => Ok(path_or(Some(file), false)),
        _ => {
            log::error!("Unable to cache file '{path}' from saltenv '{saltenv}'.");
            Ok(false.into())
        }
    }
}

fn cache_files(call: &mut Call<'_>) -> Result {
    let paths: Vec<String> = match call.arg("paths") {
        Value::Str(paths) => paths.split(',').map(str::to_owned).collect(),
        other => other.str_list(),
    };
    let (client, saltenv) = (client(call)?, env(call));
    let mut cached = Vec::new();
    for path in &paths {
        cached.push(path_or(client.cache_file(path, &saltenv)?, false));
    }
    Ok(cached.into())
}

fn cache_dir(call: &mut Call<'_>) -> Result {
    let pick = FileFilter::new(call.arg("include_pat"), call.arg("exclude_pat"));
    let empty = call.flag("include_empty");
    let cached = client(call)?.cache_dir(&path(call), &env(call), empty, &pick, None)?;
    Ok(path_list(cached))
}

fn cache_master(call: &mut Call<'_>) -> Result {
    Ok(path_list(client(call)?.cache_master(&env(call))?))
}

fn cache_local_file(call: &mut Call<'_>) -> Result {
    let path = path(call);
    if !std::path::Path::new(&path).exists() {
        return Ok("".into());
    }
    let (client, saltenv) = (client(call)?, env(call));
    if let Some(cached) = client.is_cached(&path, &saltenv)
        && client.hash(&path, &saltenv)? == client.hash(&cached, &saltenv)?
    {
        return Ok(cached.into());
    }
    Ok(path_or(Some(client.cache_local_file(&path)?), ""))
}

fn cache_dest(call: &mut Call<'_>) -> Result {
    let address = call.text("url").unwrap_or_default();
    Ok(path_or(
        client(call)?.cache_dest(&address, &env(call)),
        "Invalid path",
    ))
}

fn is_cached(call: &mut Call<'_>) -> Result {
    let cached = client(call)?.is_cached(&path(call), &env(call));
    Ok(cached.unwrap_or_default().into())
}

fn hash_file(call: &mut Call<'_>) -> Result {
    let path = path(call);
    let hash = client(call)?.hash(&path, &env(call))?;
    let here = !path.starts_with(url::SCHEME);
    Ok(match hash {
        Some(hash) if here => {
            halite_wire::map! {"hsum" => hash.hsum, "hash_type" => hash.hash_type}.into()
        }
        Some(hash) => hash.to_map().into(),
        // Stock returns the tuple of its inner function.
        None if here => vec![Value::Map(Map::new()), Value::Nil].into(),
        None => "".into(),
    })
}

fn stat_file(call: &mut Call<'_>) -> Result {
    let (_, stat) = client(call)?.hash_and_stat(&path(call), &env(call))?;
    let Some(mode) = stat.as_array().and_then(|stat| stat.first()) else {
        return Ok(Value::Nil);
    };
    if call.arg("octal") != &Value::Bool(true) {
        return Ok(mode.clone());
    }
    let Some(mode) = mode.as_int() else {
        return Ok("".into());
    };
    let digits = format!("0o{mode:o}");
    Ok(digits[digits.len().saturating_sub(4)..].into())
}

fn prefix(call: &Call<'_>) -> String {
    call.text("prefix").unwrap_or_default()
}

fn list_master(call: &mut Call<'_>) -> Result {
    Ok(client(call)?.list(&env(call), &prefix(call))?.into())
}

fn list_master_dirs(call: &mut Call<'_>) -> Result {
    Ok(client(call)?.dirs(&env(call), &prefix(call))?.into())
}

fn list_master_symlinks(call: &mut Call<'_>) -> Result {
    Ok(client(call)?.links(&env(call), &prefix(call))?.into())
}

fn list_minion(call: &mut Call<'_>) -> Result {
    Ok(client(call)?.local_list(&env(call)).into())
}

fn list_states(call: &mut Call<'_>) -> Result {
    Ok(client(call)?.states(&env(call))?.into())
}
