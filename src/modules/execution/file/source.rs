//! Sources of file content: URLs, the file server, signatures.

use super::super::declare::Result;
use super::super::{Call, CallError, find_for, python};
use super::os;
use super::paths;
use crate::files::{FileClient, FileHash, GetFile, MAX_CONTENT, url};
use halite_sys::safe_open::read_finite;
use halite_wire::map;
use halite_wire::{Map, Value};

/// Schemes of remote URLs (`salt/utils/files.py REMOTE_PROTOS`).
pub const REMOTE_PROTOS: [&str; 5] = ["http", "https", "ftp", "swift", "s3"];
/// All schemes of sources.
pub const VALID_PROTOS: [&str; 7] = ["salt", "file", "http", "https", "ftp", "swift", "s3"];

/// The parts of a URL used here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Url {
    /// In lower case; empty if missing.
    pub scheme: String,
    /// Host, port and user.
    pub netloc: String,
    /// Up to `?` or `#`.
    pub path: String,
}

impl Url {
    /// Host and path joined, without trailing slashes.
    pub fn host_and_path(&self) -> String {
        let joined = paths::join(&self.netloc, &self.path);
        joined.trim_end_matches('/').to_owned()
    }
}

/// `urllib.parse.urlparse`.
pub fn urlparse(url: &str) -> Url {
    let is_scheme = |s: &&str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let scheme = url.split_once(':').map(|(s, _)| s).filter(is_scheme);
    let rest = scheme.map_or(url, |s| &url[s.len() + 1..]);
    let (netloc, rest) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    Url {
        scheme: scheme.unwrap_or_default().to_lowercase(),
        netloc: netloc.to_owned(),
        path: path.to_owned(),
    }
}

/// A URL without credentials (`salt/utils/url.py redact_http_basic_auth`).
pub fn redacted(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let start = lower.find("https://").map(|at| at + 8);
    let start = start.or_else(|| lower.find("http://").map(|at| at + 7));
    match (start, text.rfind('@')) {
        (Some(start), Some(end)) if end >= start => {
            format!("{}<redacted>{}", &text[..start], &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// The environment of a URL, which takes precedence over the requested one.
pub(super) fn env_of<'a>(url: &'a str, saltenv: &'a str) -> &'a str {
    split_env(url).unwrap_or(saltenv)
}

fn split_env(url: &str) -> Option<&str> {
    url::parse(url).1
}

/// The local copy of a source; local paths are returned as they are. `None` if the file server does not have it.
/// `kwargs` are those of `cp.cache_file`.
///
/// # Errors
/// The path is relative, or the source is unreachable.
pub fn cache_file(
    call: &mut Call<'_>,
    url: &str,
    saltenv: &str,
    kwargs: Map,
) -> Result<Option<String>> {
    let parsed = urlparse(url);
    match parsed.scheme.as_str() {
        "" | "file" => {
            let host_and_path = parsed.host_and_path();
            if paths::is_abs(&host_and_path) {
                Ok(Some(host_and_path))
            } else {
                os::command(format!("Path '{host_and_path}' is not absolute"))
            }
        }
        "salt" => {
            let client = FileClient::new(call.ctx)?;
            let found = client.cache_file(url, env_of(url, saltenv))?;
            Ok(found.map(|path| path.to_string_lossy().into_owned()))
        }
        _ => {
            let found = call.salt("cp.cache_file", vec![url.into(), saltenv.into()], kwargs)?;
            Ok(Some(found).filter(Value::truthy).map(|v| python::str(&v)))
        }
    }
}

/// Like [`cache_file`], of a file on the file server whose hash there was just asked for.
///
/// # Errors
/// As there.
pub(super) fn cache_known(
    call: &mut Call<'_>,
    url: &str,
    saltenv: &str,
    hash: &FileHash,
) -> Result<Option<String>> {
    let found = FileClient::new(call.ctx)?.get_file(&GetFile {
        hash: Some(hash),
        ..GetFile::new(url, env_of(url, saltenv))
    })?;
    Ok(found.map(|path| path.to_string_lossy().into_owned()))
}

/// An existing local copy of a source (`cp.is_cached`).
///
/// # Errors
/// Invalid options of the file client.
pub fn is_cached(call: &mut Call<'_>, url: &str, saltenv: &str) -> Result<Option<String>> {
    let client = FileClient::new(call.ctx)?;
    let found = client.is_cached(url, env_of(url, saltenv));
    Ok(found.filter(|path| !path.is_empty()))
}

/// The octal mode of a source (`cp.stat_file`).
///
/// # Errors
/// The file server is unreachable.
pub fn stat_file(call: &mut Call<'_>, url: &str, saltenv: &str) -> Result {
    let client = FileClient::new(call.ctx)?;
    let (_, stat) = client.hash_and_stat(url, env_of(url, saltenv))?;
    let mode = stat
        .as_array()
        .and_then(|numbers| numbers.first()?.as_int());
    Ok(mode.map_or(Value::Nil, |mode| format!("{:04o}", mode & 0o7777).into()))
}

/// Requirements for a signature.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The signatures, or true if they are in the file.
    pub signature: Value,
    /// Require one of these keys.
    pub signed_by_any: Value,
    /// Require all of these keys.
    pub signed_by_all: Value,
    /// The keyring.
    pub keyring: Value,
    /// GnuPG's home directory.
    pub gnupghome: Value,
    /// The execution module that verifies.
    pub backend: String,
}

impl Signature {
    /// From a call's arguments; `name` is the argument with the signature.
    pub fn from_call(call: &Call<'_>, name: &str) -> Signature {
        Signature {
            signature: call.arg(name).clone(),
            signed_by_any: call.arg("signed_by_any").clone(),
            signed_by_all: call.arg("signed_by_all").clone(),
            keyring: call.arg("keyring").clone(),
            gnupghome: call.arg("gnupghome").clone(),
            backend: call.text("sig_backend").unwrap_or_default(),
        }
    }

    /// Whether a signature is required.
    pub fn is_required(&self) -> bool {
        self.signature.truthy()
    }

    /// The same requirements for another signature.
    pub fn with(&self, signature: &Value) -> Signature {
        Signature {
            signature: signature.clone(),
            ..self.clone()
        }
    }
}

/// Verifies a file and removes it on failure (`_check_sig`).
///
/// # Errors
/// `CommandExecutionError`: missing or invalid signature.
pub fn check_signature(
    call: &mut Call<'_>,
    file: &str,
    how: &Signature,
    saltenv: &str,
    verify_ssl: &Value,
) -> Result<()> {
    let backend = &how.backend;
    let function = format!("{backend}.verify");
    if find_for(call.ctx, &function).is_none() {
        return os::command(format!(
            "Signature verification requires the {backend} module, which could not be found. Make sure you \
             have the necessary tools and libraries intalled"
        ));
    }
    let mut cached = Vec::new();
    let mut last = Value::Nil;
    let wanted = match &how.signature {
        Value::Bool(true) | Value::Nil => Vec::new(),
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let mut signatures = Vec::new();
    for sig in &wanted {
        let text = python::str(sig);
        let with = map! {"verify_ssl" => verify_ssl.clone()};
        let url = urlparse(&text);
        // A text that is no address is the signature itself.
        let found = if url.scheme.is_empty() && !paths::is_abs(&text) {
            None
        } else {
            cache_file(call, &text, saltenv, with)?
        };
        match found {
            Some(path) => {
                cached.push(path.clone());
                signatures.push(path.into());
            }
            None if backend == "gpg" => {
                return os::command(format!("Detached signature file {text} not found"));
            }
            None => signatures.push(sig.clone()),
        }
    }
    if !wanted.is_empty() {
        last = match (&how.signature, signatures.first()) {
            (Value::Str(_), Some(first)) => first.clone(),
            _ => Value::Array(signatures),
        };
    }
    if wanted.is_empty() && backend == "gpg" && !is_all_signed(file)? {
        let _ = std::fs::remove_file(file);
        return os::command(
            "The file's signature could not be verified: there is more in the file than one signed text",
        );
    }
    let args = map! {
        "filename" => file, "signature" => last, "keyring" => how.keyring.clone(),
        "gnupghome" => how.gnupghome.clone(), "signed_by_any" => how.signed_by_any.clone(),
        "signed_by_all" => how.signed_by_all.clone(),
    };
    let res = call.salt(&function, Vec::new(), args)?;
    let res = res.into_map().unwrap_or_default();
    if res.get("res") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    for path in cached.iter().map(String::as_str).chain([file]) {
        let _ = std::fs::remove_file(path);
    }
    os::command(format!(
        "The file's signature could not be verified: {}",
        res.get("message").map(python::str).unwrap_or_default()
    ))
}

/// Whether a file consists of one clearsigned text and nothing else: `gpg` skips what is around it and some of its
/// headers, and whoever uses the file does not.
///
/// # Errors
/// It cannot be read.
fn is_all_signed(file: &str) -> Result<bool> {
    let bytes = read_finite(file.as_ref(), MAX_CONTENT).map_err(|e| python::os_error(&e, file))?;
    Ok(String::from_utf8(bytes).is_ok_and(|text| is_one_signed_text(&text)))
}

fn is_one_signed_text(text: &str) -> bool {
    const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
    const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
    const END: &str = "-----END PGP SIGNATURE-----";
    /// `gpg` cuts off what is behind that, and does not check it.
    const LONGEST: usize = 16_000;
    let lines: Vec<&str> = text.trim_end().split('\n').map(str::trim_end).collect();
    let marks: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|l| l.starts_with("-----"))
        .collect();
    if marks != [BEGIN, SIGNATURE, END]
        || lines.first() != Some(&BEGIN)
        || lines.last() != Some(&END)
        || lines.iter().any(|line| line.len() > LONGEST)
    {
        return false;
    }
    let plain = |text: &str, more: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let header = |line: &&str| {
        line.strip_prefix("Hash: ")
            .is_some_and(|names| plain(names, ", -"))
    };
    let mut inside = lines.iter().copied().skip(1).skip_while(header);
    let after = lines.iter().skip_while(|line| **line != SIGNATURE).skip(1);
    let mut coded = after.filter(|line| **line != END);
    inside.next() == Some("")
        && coded.all(|line| {
            let version = line.strip_prefix("Version: ");
            plain(
                version.unwrap_or(line),
                if version.is_some() { " .()-" } else { "+/=" },
            )
        })
}

/// Files on the file server, listed once.
#[derive(Default)]
struct FileListing(Vec<(String, Vec<String>)>);

impl FileListing {
    fn has(&mut self, call: &mut Call<'_>, path: &str, saltenv: &str) -> Result<bool> {
        if !self.0.iter().any(|(env, _)| env == saltenv) {
            let client = FileClient::new(call.ctx)?;
            let mut all = client.list(saltenv, "")?;
            all.extend(client.dirs(saltenv, "")?);
            self.0.push((saltenv.to_owned(), all));
        }
        let found = self.0.iter().find(|(env, _)| env == saltenv);
        Ok(found.is_some_and(|(_, all)| all.iter().any(|p| p == path)))
    }
}

/// The first available source, with its hash (`file.source_list`).
///
/// # Errors
/// No source is available.
pub fn source_list(
    call: &mut Call<'_>,
    source: &Value,
    source_hash: &Value,
    saltenv: &str,
) -> Result<(Value, Value)> {
    let Value::Array(list) = source else {
        return Ok((source.clone(), source_hash.clone()));
    };
    let mut listing = FileListing::default();
    for single in list {
        let (src, hash, is_map) = match single {
            Value::Map(map) if map.len() == 1 => {
                let (src, hash) = &map.0[0];
                let hash = if hash.truthy() { hash } else { source_hash };
                (python::str(src), hash, true)
            }
            Value::Str(src) => (src.clone(), source_hash, false),
            _ => continue,
        };
        if source_exists(call, &mut listing, &src, saltenv, is_map)? {
            return Ok((src.into(), hash.clone()));
        }
    }
    os::command("none of the specified sources were found")
}

fn source_exists(
    call: &mut Call<'_>,
    listing: &mut FileListing,
    src: &str,
    saltenv: &str,
    is_map: bool,
) -> Result<bool> {
    let url = urlparse(src);
    match url.scheme.as_str() {
        "file" => Ok(
            [&url.netloc, &url.path, &paths::join(&url.netloc, &url.path)]
                .iter()
                .any(|p| !p.is_empty() && paths::exists(p)),
        ),
        web if web.starts_with("http") || web == "ftp" => {
            let how = map! {"method" => "HEAD", "decode_body" => false};
            let answer = call.salt("http.query", vec![src.into()], how)?;
            Ok(answer.as_map().is_some_and(|m| !m.contains("error")))
        }
        _ if src.starts_with('/') => Ok(paths::exists(src)),
        _ => {
            let (path, env) = url::parse(src);
            // In a map, the URL's environment is ignored.
            let env = env.filter(|_| !is_map);
            listing.has(call, path, env.unwrap_or(saltenv))
        }
    }
}

pub fn source_list_function(call: &mut Call<'_>) -> Result {
    let (source, hash) = (call.arg("source").clone(), call.arg("source_hash").clone());
    let saltenv = call.text("saltenv").unwrap_or_default();
    let (source, hash) = source_list(call, &source, &hash, &saltenv)?;
    Ok(Value::Array(vec![source, hash]))
}

/// Removes a temporary file of this module, but no others (`__clean_tmp`).
pub fn clean_tmp(call: &Call<'_>, path: &str) {
    let prefix = os::temp_dir().join(os::TEMPFILE_PREFIX);
    if !path.starts_with(&*prefix.to_string_lossy()) {
        return;
    }
    let roots = call.ctx.opts.get("file_roots").and_then(Value::as_map);
    let in_roots = roots.is_some_and(|roots| {
        let dirs = roots.iter().flat_map(|(_, dirs)| dirs.str_list());
        dirs.into_iter().any(|dir| path.starts_with(&dir))
    });
    if !in_roots {
        let _ = std::fs::remove_file(path);
    }
}

/// The message of a `CommandExecutionError`; other errors are passed on.
pub fn only_command(fault: CallError) -> Result<String> {
    match fault {
        CallError::Command(text) => Ok(text),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_around_a_signed_text() {
        let good = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\na b\n- -----x\n-----BEGIN PGP SIGNATURE-----\n\n\
            iHUE+/==\n=ab12\n-----END PGP SIGNATURE-----\n";
        assert!(is_one_signed_text(good));
        assert!(is_one_signed_text(&good.replace('\n', "\r\n")));
        for bad in [
            format!("x\n{good}"),
            format!("{good}x\n"),
            format!("{good}{good}"),
            good.replace("Hash: SHA512", "Hash: $(x)"),
            good.replace("\n\niHUE", "\nComment: x\n\niHUE"),
            "x".to_owned(),
        ] {
            assert!(!is_one_signed_text(&bad), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        let parts = |url: &str| {
            let u = urlparse(url);
            [u.scheme, u.netloc, u.path]
        };
        assert_eq!(parts("salt://a/b?saltenv=x"), ["salt", "a", "/b"]);
        assert_eq!(parts("/a/b#c"), ["", "", "/a/b"]);
        assert_eq!(parts("HTTPS://u:p@h:1/p?q"), ["https", "u:p@h:1", "/p"]);
        assert_eq!(parts("file:///a"), ["file", "", "/a"]);
        assert_eq!(parts("md5=1:2"), ["", "", "md5=1:2"]);
        assert_eq!(redacted("http://u:p@h/"), "http://<redacted>@h/");
        assert_eq!(redacted("/a@b"), "/a@b");
        assert_eq!(urlparse("file:///a/").host_and_path(), "/a");
    }
}
