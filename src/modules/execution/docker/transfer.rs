//! Images from and to registries, directories and archives.

use super::super::{Call, CallError, python};
use super::containers::{as_map, keywords, named, segment};
use super::engine::{Engine, LONG, query, timeout};
use super::http::{Body, Patience};
use super::{images, registry, tarball};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Type of an archive.
const TAR: &str = "application/x-tar";

/// Repository and tag of an image.
pub fn split_name(image: &str) -> (String, Option<String>) {
    if let Some((repository, digest)) = image.split_once('@') {
        return (repository.to_owned(), Some(digest.to_owned()));
    }
    match image.rsplit_once(':') {
        // A colon before a slash is that of a port.
        Some((repository, tag)) if !tag.contains('/') => {
            (repository.to_owned(), Some(tag.to_owned()))
        }
        _ => (image.to_owned(), None),
    }
}

/// Errors among lines of progress.
fn errors(lines: &[Map]) -> Vec<Value> {
    let text = |line: &Map| {
        let error = line.get("error")?;
        let detail = line.get("errorDetail").and_then(Value::as_map);
        let code = detail.and_then(|d| d.get("code"));
        Some(Value::from(match code {
            Some(code) => format!("{}: {}", python::str(code), python::str(error)),
            None => python::str(error),
        }))
    };
    lines.iter().filter_map(text).collect()
}

/// Fetches an image.
///
/// # Errors
/// The engine cannot.
pub fn pull_image(
    call: &mut Call<'_>,
    engine: &Engine,
    image: &str,
    silence: Duration,
) -> Result<Map> {
    let (repository, tag) = split_name(image);
    let tag = tag.unwrap_or_else(|| "latest".to_owned());
    let path = format!(
        "/images/create?{}",
        query(&[("tag", tag), ("fromImage", repository.clone())])
    );
    let headers: Vec<_> = registry::credentials(call, &repository)?
        .map(|value| ("X-Registry-Auth", value))
        .into_iter()
        .collect();
    let since = Instant::now();
    let answer = engine.send("POST", &path, &headers, Body::None, Patience::Each(silence))??;
    let lines = engine.progress(answer)?;
    let errors = errors(&lines);
    let mut ret = map! {
        "Time_Elapsed" => since.elapsed().as_secs_f64(), "retcode" => i64::from(!errors.is_empty()),
    };
    let (mut had, mut got) = (Vec::new(), Vec::new());
    let mut told = None;
    for line in &lines {
        let status = line.str("status").unwrap_or_default();
        let id = line.get("id").cloned();
        match (status, id) {
            ("Already exists", Some(id)) => had.push(id),
            ("Pull complete", Some(id)) => got.push(id),
            (status, None) if status.starts_with("Status: ") => told = Some(status),
            _ => {}
        }
    }
    let mut layers = Map::new();
    for (key, list) in [("Already_Pulled", had), ("Pulled", got)] {
        if !list.is_empty() {
            layers.set(key, list);
        }
    }
    if !layers.is_empty() {
        ret.set("Layers", layers);
    }
    if let Some(told) = told {
        ret.set("Status", told.trim_start_matches("Status: "));
    }
    if images::find(engine, image)?.is_none() {
        let texts: Vec<String> = errors.iter().map(python::str).collect();
        let mut text = "Pull failed for ".to_owned() + image;
        if !texts.is_empty() {
            text.push_str(&format!(". Error(s) follow:\n\n{}", texts.join("\n\n")));
        }
        return Err(CallError::Command(text));
    }
    if !errors.is_empty() {
        ret.set("Errors", errors);
    }
    if call.flag("api_response") {
        ret.set(
            "API_Response",
            lines.into_iter().map(Value::from).collect::<Vec<_>>(),
        );
    }
    Ok(ret)
}

pub(super) fn pull(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let image = call.text("image").unwrap_or_default();
    let silence = timeout(Some(call.arg("client_timeout")))?;
    pull_image(call, &engine, &image, silence).map(Value::from)
}

pub(super) fn push(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let image = call.text("image").unwrap_or_default();
    let silence = timeout(Some(call.arg("client_timeout")))?;
    let (repository, tag) = split_name(&image);
    let mut path = format!("/images/{}/push", segment(&repository)?);
    if let Some(tag) = tag {
        path.push_str(&format!("?{}", query(&[("tag", tag)])));
    }
    // The engine wants the header even if there is nothing to say.
    let auth = registry::credentials(call, &repository)?;
    let headers = [("X-Registry-Auth", auth.unwrap_or_else(|| "e30=".to_owned()))];
    let since = Instant::now();
    let answer = engine.send("POST", &path, &headers, Body::None, Patience::Each(silence))??;
    let lines = engine.progress(answer)?;
    let errors = errors(&lines);
    let (mut had, mut sent) = (Vec::new(), Vec::new());
    for line in &lines {
        match (line.str("status"), line.get("id")) {
            (Some("Layer already exists"), Some(id)) => had.push(id.clone()),
            (Some("Pushed"), Some(id)) => sent.push(id.clone()),
            _ => {}
        }
    }
    let mut ret = map! {
        "Time_Elapsed" => since.elapsed().as_secs_f64(), "retcode" => i64::from(!errors.is_empty()),
    };
    let mut layers = Map::new();
    for (key, list) in [("Already_Pushed", had), ("Pushed", sent)] {
        if !list.is_empty() {
            layers.set(key, list);
        }
    }
    if !layers.is_empty() {
        ret.set("Layers", layers);
    }
    if !errors.is_empty() {
        ret.set("Errors", errors);
    }
    if call.flag("api_response") {
        ret.set(
            "API_Response",
            lines.into_iter().map(Value::from).collect::<Vec<_>>(),
        );
    }
    Ok(ret.into())
}

/// What an image is built from.
#[derive(Default)]
pub struct Building<'a> {
    /// The directory.
    pub path: &'a str,
    /// The name to be.
    pub name: Option<String>,
    /// Another Dockerfile.
    pub dockerfile: Option<String>,
    /// Arguments of the Dockerfile.
    pub args: Map,
    /// Not from what the engine remembers.
    pub fresh: bool,
    /// Whether containers of single steps are kept.
    pub keep: bool,
}

/// Builds an image.
///
/// # Errors
/// There is no directory, or it cannot be built.
pub fn build_image(engine: &Engine, what: &Building<'_>) -> Result<(Map, Vec<Map>)> {
    let path = Path::new(what.path);
    if !path.is_dir() {
        return Err(CallError::Command(
            "Unable to perform build: You must specify a directory to build in path".to_owned(),
        ));
    }
    let truth = |yes: bool| (if yes { "True" } else { "False" }).to_owned();
    let mut parts = Vec::new();
    if let Some(name) = &what.name {
        parts.push(("t", name.clone()));
    }
    parts.push(("q", truth(false)));
    parts.push(("nocache", truth(what.fresh)));
    parts.push(("rm", truth(!what.keep)));
    parts.push(("forcerm", truth(false)));
    parts.push(("pull", truth(false)));
    if let Some(file) = &what.dockerfile {
        parts.push(("dockerfile", file.clone()));
    }
    if !what.args.is_empty() {
        let text = super::engine::encoded(&what.args)?;
        parts.push(("buildargs", String::from_utf8_lossy(&text).into_owned()));
    }
    let request = format!("/build?{}", query(&parts));
    let since = Instant::now();
    let dockerfile = what.dockerfile.as_deref().unwrap_or("Dockerfile");
    let (mut from, packer) = tarball::pack(path, dockerfile)?;
    let body = Body::Stream(TAR, &mut from);
    let answer = engine.send("POST", &request, &[], body, Patience::Each(LONG));
    // Without a reader, it ends.
    drop(from);
    let packed = packer.join();
    let answer = answer??;
    if let Ok(Err(e)) = packed {
        return Err(CallError::Command(python::os_text(&e, what.path)));
    }
    let lines = engine.progress(answer)?;
    let errors = errors(&lines);
    let said = |line: &Map| line.str("stream").map(str::trim).map(str::to_owned);
    let id = lines
        .iter()
        .rev()
        .filter_map(said)
        .find_map(|text| text.strip_prefix("Successfully built ").map(str::to_owned));
    let Some(id) = id else {
        let texts: Vec<String> = errors.iter().map(python::str).collect();
        let mut text = format!("Build failed for {}", what.path);
        if !texts.is_empty() {
            text.push_str(&format!(". Error(s) follow:\n\n{}", texts.join("\n\n")));
        }
        return Err(CallError::Command(text));
    };
    let mut ret = map! {"Time_Elapsed" => since.elapsed().as_secs_f64(), "Id" => id.as_str()};
    let info = images::find(engine, &id)?.unwrap_or_default();
    let tags = info
        .get("RepoTags")
        .map(Value::str_list)
        .unwrap_or_default();
    let named = match (tags.is_empty(), info.get("Id")) {
        (true, Some(id)) => vec![id.clone()],
        _ => tags.into_iter().map(Value::from).collect(),
    };
    ret.set("Image", named);
    Ok((ret, lines))
}

pub(super) fn build(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let path = call.text("path").unwrap_or_default();
    if call.arg("fileobj").truthy() {
        return Err(CallError::Invocation(
            "This minion has no 'fileobj' for docker.build: give it a path".to_owned(),
        ));
    }
    let name = match (call.text("repository"), call.text("tag")) {
        (Some(repository), Some(tag)) => Some(format!("{repository}:{tag}")),
        (repository, _) => repository,
    };
    let what = Building {
        path: &path,
        name,
        dockerfile: call.text("dockerfile"),
        args: call.arg("buildargs").as_map().cloned().unwrap_or_default(),
        fresh: !call.flag("cache"),
        keep: !call.flag("rm"),
    };
    let (mut ret, lines) = build_image(&engine, &what)?;
    if call.flag("api_response") {
        ret.set(
            "API_Response",
            lines.into_iter().map(Value::from).collect::<Vec<_>>(),
        );
    }
    Ok(ret.into())
}

/// A file of this minion, or one of the file server.
fn local_file(call: &mut Call<'_>, path: &str) -> Result<String> {
    if !path.contains("://") {
        return match Path::new(path).is_file() {
            true => Ok(path.to_owned()),
            false => Err(CallError::Command(format!(
                "Source file {path} does not exist"
            ))),
        };
    }
    match call.salt("cp.cache_file", vec![path.into()], Map::new()) {
        Ok(Value::Str(file)) if !file.is_empty() => Ok(file),
        _ => Err(CallError::Command(format!("Unable to cache {path}"))),
    }
}

fn opened(path: &str) -> Result<File> {
    File::open(path).map_err(|e| CallError::Command(python::os_text(&e, path)))
}

/// Loads the images of an archive; tags the one that is new.
///
/// # Errors
/// There is no such file, or the engine refuses it.
pub fn load_image(
    call: &mut Call<'_>,
    engine: &Engine,
    path: &str,
    name: Option<(&str, &str)>,
) -> Result<Map> {
    let file = local_file(call, path)?;
    let before = images::top_level(engine)?;
    let since = Instant::now();
    let mut from = opened(&file)?;
    let body = Body::Stream(TAR, &mut from);
    let answer = engine.send(
        "POST",
        "/images/load?quiet=1",
        &[],
        body,
        Patience::Each(LONG),
    )??;
    let lines = engine.progress(answer)?;
    let errors = errors(&lines);
    if !errors.is_empty() {
        let texts: Vec<String> = errors.iter().map(python::str).collect();
        return Err(CallError::Command(texts.join("\n")));
    }
    let mut ret = map! {"Time_Elapsed" => since.elapsed().as_secs_f64(), "Path" => path};
    let new: Vec<String> = images::top_level(engine)?
        .into_iter()
        .filter(|id| !before.contains(id))
        .collect();
    if let Some((repository, tag)) = name {
        match &new[..] {
            [id] => match images::tag_as(engine, id, repository, tag, false) {
                Ok(()) => ret.set("Image", format!("{repository}:{tag}")),
                Err(e) => ret.set(
                    "Warning",
                    format!("Failed to tag image {id}: {}", e.message()),
                ),
            },
            [] => ret.set(
                "Warning",
                "No top-level image layers were loaded, no image was tagged",
            ),
            _ => ret.set(
                "Warning",
                format!(
                    "More than one top-level image layer was loaded ({}), no image was tagged",
                    new.join(", ")
                ),
            ),
        }
    }
    ret.set(
        "Layers",
        new.into_iter().map(Value::from).collect::<Vec<_>>(),
    );
    Ok(ret)
}

pub(super) fn load(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let path = call.text("path").unwrap_or_default();
    let (repository, tag) = (call.text("repository"), call.text("tag"));
    if repository.is_none() && tag.is_some() {
        return Err(CallError::Invocation(
            "If a tag is specified, then a repository must also be specified".to_owned(),
        ));
    }
    let tag = tag.unwrap_or_else(|| "latest".to_owned());
    let name = repository
        .as_deref()
        .map(|repository| (repository, tag.as_str()));
    load_image(call, &engine, &path, name).map(Value::from)
}

pub(super) fn import(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let (source, repository, tag) = (text("source"), text("repository"), text("tag"));
    let file = local_file(call, &source)?;
    let since = Instant::now();
    let mut from = opened(&file)?;
    let path = format!(
        "/images/create?{}",
        query(&[
            ("fromSrc", "-".to_owned()),
            ("repo", repository.clone()),
            ("tag", tag.clone())
        ])
    );
    let answer = engine.send(
        "POST",
        &path,
        &[],
        Body::Stream(TAR, &mut from),
        Patience::Each(LONG),
    )??;
    let lines = engine.progress(answer)?;
    let errors = errors(&lines);
    let id = lines
        .iter()
        .rev()
        .find_map(|line| line.str("status").filter(|s| s.starts_with("sha256:")));
    let Some(id) = id.filter(|_| errors.is_empty()) else {
        let texts: Vec<String> = errors.iter().map(python::str).collect();
        let text = format!(
            "Import failed for {source}. Error(s) follow:\n\n{}",
            texts.join("\n\n")
        );
        return Err(CallError::Command(text));
    };
    let mut ret = map! {
        "Time_Elapsed" => since.elapsed().as_secs_f64(), "Id" => id, "Image" => format!("{repository}:{tag}"),
    };
    if call.flag("api_response") {
        ret.set(
            "API_Response",
            lines.iter().cloned().map(Value::from).collect::<Vec<_>>(),
        );
    }
    Ok(ret.into())
}

/// Writes an archive of the engine to a new file.
fn write_archive(call: &mut Call<'_>, engine: &Engine, from: &str) -> Result<Map> {
    let path = call.text("path").unwrap_or_default();
    if !path.starts_with('/') {
        return Err(CallError::Invocation(format!(
            "Path '{path}' is not absolute"
        )));
    }
    let place = Path::new(&path);
    if place.exists() && !call.flag("overwrite") {
        return Err(CallError::Command(format!("{path} already exists")));
    }
    let squeezed = match call.text("compression").as_deref() {
        Some("gzip" | "gz") => true,
        Some(other) => {
            return Err(CallError::Invocation(format!(
                "Invalid compression type '{other}'"
            )));
        }
        None => path.ends_with(".gz") || path.ends_with(".tgz"),
    };
    let dir = place.parent().unwrap_or(Path::new("/"));
    if !dir.is_dir() {
        if !call.flag("makedirs") {
            return Err(CallError::Command(format!(
                "Parent dir '{}' of destination path does not exist. Use makedirs=True to create it.",
                dir.display()
            )));
        }
        std::fs::create_dir_all(dir).map_err(|e| python::os_error(&e, &dir.to_string_lossy()))?;
    }
    let since = Instant::now();
    let answer = engine.send("GET", from, &[], Body::None, Patience::Each(LONG))??;
    let unfinished = format!("{path}.{}.part", std::process::id());
    let done = (|| {
        let failed = |e: std::io::Error| python::os_error(&e, &unfinished);
        let file = File::options()
            .write(true)
            .create_new(true)
            // An image may have secrets in it.
            .mode(0o600)
            .open(&unfinished)
            .map_err(failed)?;
        if squeezed {
            let mut to = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            engine.copy(answer, &mut to)?;
            to.finish().map_err(failed)?;
        } else {
            let mut to = file;
            engine.copy(answer, &mut to)?;
            to.flush().map_err(failed)?;
        }
        std::fs::rename(&unfinished, &path).map_err(|e| python::os_error(&e, &path))
    })();
    if let Err(e) = done {
        // The error tells more than what is left of the file.
        let _ = std::fs::remove_file(&unfinished);
        return Err(e);
    }
    let size = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    Ok(map! {
        "Time_Elapsed" => since.elapsed().as_secs_f64(), "Path" => path, "Size" => Value::Int(size as i64),
        "Size_Human" => super::human::size(size as i64),
    })
}

pub(super) fn save(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let _ = as_map(engine.get(&format!("/images/{}/json", segment(&name)?))??);
    let from = format!("/images/{}/get", segment(&name)?);
    write_archive(call, &engine, &from).map(Value::from)
}

pub(super) fn export(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let _ = keywords(call);
    let from = format!("/containers/{}/export", segment(&named(call))?);
    write_archive(call, &engine, &from).map(Value::from)
}
