//! Fetches one file by URL (`salt/fileclient.py Client.get_url`): `salt://`, a local path or `file://`, `http://` and
//! `https://`.

use super::fetch::{GetFile, PartFile, make_cache_dir};
use super::{FileClient, FileError, MAX_CONTENT, Result, hash_file, url};
use halite_crypto::HashType;
use halite_sys::daemon::write_atomic;
use halite_sys::safe_open::{read_finite, read_text};
use halite_wire::base64;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// Connection timeout (`http_connect_timeout`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Download timeout (`http_request_timeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// Maximum size of a kept `ETag`.
const MAX_TAG: u64 = 8 << 10;

/// What to fetch, and where to.
#[derive(Clone, Copy, Debug)]
pub struct GetUrl<'a> {
    /// The URL.
    pub url: &'a str,
    /// The environment of a `salt://` URL without one.
    pub saltenv: &'a str,
    /// A file, or a directory to put it in; empty for the cache, `None` for the content itself.
    pub dest: Option<&'a str>,
    /// Create the directories of `dest`.
    pub makedirs: bool,
    /// Hash that makes a cached file valid, with optional `<type>=` prefix.
    pub source_hash: Option<&'a str>,
    /// Verify the certificate of an `https://` server.
    pub verify_ssl: bool,
    /// Fetch the file only if its `ETag` differs from the local copy's.
    pub use_etag: bool,
    /// Another `cachedir`; relative to the default one.
    pub cachedir: Option<&'a str>,
}

impl<'a> GetUrl<'a> {
    /// Into the cache.
    pub fn new(url: &'a str, saltenv: &'a str) -> GetUrl<'a> {
        GetUrl {
            url,
            saltenv,
            dest: Some(""),
            makedirs: true,
            source_hash: None,
            verify_ssl: true,
            use_etag: false,
            cachedir: None,
        }
    }
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq)]
pub enum Downloaded {
    /// A local file.
    File(PathBuf),
    /// Its content.
    Content(Vec<u8>),
}

impl FileClient {
    /// Fetches a file; `None` if it or its target directory does not exist.
    ///
    /// # Errors
    /// Unsupported URL, a server error, or a file that cannot be written.
    pub fn get_url(&self, fetch: &GetUrl<'_>) -> Result<Option<Downloaded>> {
        let dest = fetch.dest.map(|dest| destination(fetch.url, dest));
        match scheme(fetch.url) {
            None | Some("file") => local_file(fetch),
            Some("salt") => {
                let got = self.get_file(&GetFile {
                    url: fetch.url,
                    saltenv: fetch.saltenv,
                    dest: dest.as_deref().unwrap_or_default(),
                    makedirs: fetch.makedirs,
                    gzip: None,
                    cachedir: fetch.cachedir,
                    hash: None,
                })?;
                let content = |path: PathBuf| match fetch.dest {
                    Some(_) => Ok(Downloaded::File(path)),
                    None => read(&path).map(Downloaded::Content),
                };
                got.map(content).transpose()
            }
            Some("http" | "https") => self.download(fetch, dest.as_deref()),
            Some(other) => Err(FileError::Web(format!(
                "Could not fetch from {}: this minion has no {other}",
                redacted(fetch.url)
            ))),
        }
    }

    fn download(&self, fetch: &GetUrl<'_>, dest: Option<&str>) -> Result<Option<Downloaded>> {
        let place = match dest {
            None => {
                let (answer, _) = request(fetch, None)?;
                let mut content = Vec::new();
                let read = answer.take(MAX_CONTENT + 1).read_to_end(&mut content);
                read.map_err(|e| broken(fetch.url, &e))?;
                if content.len() as u64 > MAX_CONTENT {
                    let why = format!("more than {MAX_CONTENT} bytes; fetch it to a file");
                    return Err(broken(fetch.url, &why));
                }
                return Ok(Some(Downloaded::Content(content)));
            }
            Some("") => self.cached_place(fetch)?,
            Some(dest) => PathBuf::from(dest),
        };
        let cached = dest == Some("");
        let kept = cached
            && fetch
                .source_hash
                .is_some_and(|hash| has_digest(&place, hash));
        if kept {
            return Ok(Some(Downloaded::File(place)));
        }
        let dir = place.parent().unwrap_or(Path::new("/"));
        if !dir.is_dir() {
            if !fetch.makedirs && !cached {
                return Ok(None);
            }
            let made = match cached {
                true => make_cache_dir(&self.cache_root(fetch.cachedir), dir),
                false => std::fs::create_dir_all(dir),
            };
            made.map_err(|e| FileError::Io(dir.to_owned(), e))?;
        }
        let tag_file = with_suffix(&place, ".etag");
        let known = match fetch.use_etag && place.exists() {
            true => read_text(&tag_file, MAX_TAG).ok(),
            false => None,
        };
        let (mut answer, etag) = match request(fetch, known.as_deref().map(str::trim)) {
            // It is unchanged.
            Err(FileError::Unchanged) => return Ok(Some(Downloaded::File(place))),
            other => other?,
        };
        let failed = |e: io::Error| FileError::Io(place.clone(), e);
        let mut part = PartFile::create(dir, if cached { 0o600 } else { 0o666 }).map_err(failed)?;
        io::copy(&mut answer, &mut part.file).map_err(|e| broken(fetch.url, &e))?;
        part.place(&place).map_err(failed)?;
        if let Some(etag) = etag.filter(|_| fetch.use_etag) {
            write_atomic(&tag_file, etag.as_bytes(), 0o644)
                .map_err(|e| FileError::Io(tag_file, e))?;
        }
        Ok(Some(Downloaded::File(place)))
    }

    fn cached_place(&self, fetch: &GetUrl<'_>) -> Result<PathBuf> {
        self.extrn_path(fetch.url, fetch.saltenv, fetch.cachedir)
            .ok_or_else(|| FileError::Web(format!("Invalid path: {}", redacted(fetch.url))))
    }
}

/// A URL's scheme, in its canonical spelling.
fn scheme(address: &str) -> Option<&'static str> {
    let (scheme, _) = address.split_once(':')?;
    // A single letter is a drive name on other systems.
    let known = ["salt", "file", "http", "https", "ftp", "s3", "swift"];
    known.into_iter().find(|k| scheme.eq_ignore_ascii_case(k))
}

/// A local file; only read if its content is requested.
fn local_file(fetch: &GetUrl<'_>) -> Result<Option<Downloaded>> {
    let path = match scheme(fetch.url) {
        Some(_) => &fetch.url["file:".len()..],
        None => fetch.url,
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split('?').next().unwrap_or_default();
    let path = path.trim_end_matches('/');
    if !path.starts_with('/') {
        return Err(FileError::Relative(path.to_owned()));
    }
    let path = PathBuf::from(path);
    match fetch.dest {
        Some(_) => Ok(Some(Downloaded::File(path))),
        None => read(&path).map(|content| Some(Downloaded::Content(content))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    read_finite(path, MAX_CONTENT).map_err(|e| FileError::Io(path.to_owned(), e))
}

/// The destination; a directory gets the URL's last component appended.
fn destination(address: &str, dest: &str) -> String {
    if dest.is_empty() || !(dest.ends_with('/') || Path::new(dest).is_dir()) {
        return dest.to_owned();
    }
    let plain = url::parse(address).0;
    let name = match plain.rsplit('/').next() {
        Some("") | None => "index.html",
        Some(name) => name,
    };
    format!("{}/{name}", dest.trim_end_matches('/'))
}

fn with_suffix(place: &Path, end: &str) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Whether a file has a hash; the type follows from its length.
fn has_digest(place: &Path, hash: &str) -> bool {
    let digits = hash.rsplit('=').next().unwrap_or(hash);
    let kind = match digits.len() {
        32 => HashType::Md5,
        40 => HashType::Sha1,
        56 => HashType::Sha224,
        64 => HashType::Sha256,
        96 => HashType::Sha384,
        128 => HashType::Sha512,
        _ => return false,
    };
    hash_file(place, kind).is_ok_and(|own| own == digits)
}

/// A URL without credentials, for messages.
fn redacted(address: &str) -> String {
    let (plain, _) = without_user(address);
    plain
}

/// Removes credentials from a URL.
fn without_user(address: &str) -> (String, Option<String>) {
    let Some((scheme, rest)) = address.split_once("://") else {
        return (address.to_owned(), None);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((user, host)) => (
            format!("{scheme}://{host}{}", &rest[end..]),
            Some(user.to_owned()),
        ),
        None => (address.to_owned(), None),
    }
}

/// The path of a URL as shown in messages.
fn path_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    path.split('?').next().unwrap_or(path)
}

fn broken(address: &str, why: &dyn std::fmt::Display) -> FileError {
    FileError::Web(format!("Error: {why} reading {}", path_of(address)))
}

/// Sends a request to a web server; returns its response and `ETag`.
fn request(
    fetch: &GetUrl<'_>,
    etag: Option<&str>,
) -> Result<(ureq::BodyReader<'static>, Option<String>)> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::NativeTls)
        .root_certs(RootCerts::PlatformVerifier)
        .disable_verification(!fetch.verify_ssl)
        .build();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(REQUEST_TIMEOUT))
        .user_agent("Salt/3008.3")
        .build()
        .into();
    let (address, user) = without_user(fetch.url);
    let mut request = agent.get(&address);
    if let Some(user) = user {
        let user = percent_decoded(&user);
        request = request.header("Authorization", format!("Basic {}", base64::encode(&user)));
    }
    if let Some(etag) = etag {
        request = request.header("If-None-Match", etag);
    }
    let answer = request.call().map_err(|e| match e {
        ureq::Error::Io(e) if e.raw_os_error().is_some() => {
            let number = e.raw_os_error().unwrap_or_default();
            let what = nix::errno::Errno::from_raw(number).desc();
            broken(&address, &format!("[Errno {number}] {what}"))
        }
        ureq::Error::Io(e) => broken(&address, &lookup_error(&e.to_string())),
        other => broken(&address, &certificate_error(other.to_string())),
    })?;
    let status = answer.status();
    if status.as_u16() == 304 && etag.is_some() {
        return Err(FileError::Unchanged);
    }
    if !status.is_success() {
        let reason = status.canonical_reason().unwrap_or("Unknown");
        let what = format!("HTTP {}: {reason}", status.as_u16());
        return Err(broken(&address, &what));
    }
    let etag = answer.headers().get("etag");
    let etag = etag.and_then(|v| v.to_str().ok()).map(str::to_owned);
    Ok((answer.into_body().into_reader(), etag))
}

/// The text of a certificate that is not trusted, as Python's `ssl` has it; other texts as they are.
fn certificate_error(text: String) -> String {
    match text.split_once("certificate verify failed") {
        Some((_, rest)) => {
            let reason = rest.rsplit_once('(').map_or("", |(_, reason)| reason);
            let reason = reason.trim_end_matches(')');
            format!("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {reason}")
        }
        None => text,
    }
}

/// The text of a failed lookup of a name as Python's `socket.gaierror` has it; other texts as they are.
fn lookup_error(text: &str) -> String {
    // The numbers of glibc's `getaddrinfo`.
    const NUMBERS: [(i32, &str); 3] = [
        (-2, "Name or service not known"),
        (-3, "Temporary failure in name resolution"),
        (-5, "No address associated with hostname"),
    ];
    let reason = text.strip_prefix("failed to lookup address information: ");
    let known = NUMBERS.iter().find(|(_, known)| reason == Some(known));
    known.map_or_else(
        || text.to_owned(),
        |(number, known)| format!("[Errno {number}] {known}"),
    )
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn addresses() {
        assert_eq!(scheme("HTTP://x"), Some("http"));
        assert_eq!(scheme("/a:b"), None);
        assert_eq!(
            without_user("http://u:p@h:1/a@b"),
            ("http://h:1/a@b".to_owned(), Some("u:p".to_owned()))
        );
        assert_eq!(path_of("http://h/a/b?c"), "/a/b");
        assert_eq!(percent_decoded("a%40b%"), b"a@b%");
        assert_eq!(destination("http://h/a/b.txt", "/x/"), "/x/b.txt");
        assert_eq!(destination("http://h/", "/x/"), "/x/index.html");
    }

    #[test]
    fn downloads() {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let port = server.server_addr().to_ip().unwrap().port();
        let thread = std::thread::spawn(move || {
            for _ in 0..6 {
                let request = server.recv().unwrap();
                let header = |name: &'static str| {
                    let all = request.headers().iter();
                    all.clone()
                        .find(|h| h.field.equiv(name))
                        .map(|h| h.value.to_string())
                };
                let etag = tiny_http::Header::from_bytes("ETag", "\"1\"").unwrap();
                let (status, text) = match request.url() {
                    "/user" => (200, header("Authorization").unwrap_or_default()),
                    "/a" if header("If-None-Match").is_some() => (304, String::new()),
                    "/a" => (200, "content".to_owned()),
                    _ => (404, "none".to_owned()),
                };
                let answer = tiny_http::Response::from_string(text);
                request
                    .respond(answer.with_status_code(status).with_header(etag))
                    .unwrap();
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let ctx = Context {
            cachedir: dir.path().to_owned(),
            ..Context::default()
        };
        let client = FileClient::new(&ctx).unwrap();
        let url = format!("http://127.0.0.1:{port}/a");
        let place = dir
            .path()
            .join(format!("extrn_files/base/127.0.0.1{port}/a"));
        let fetch = GetUrl::new(&url, "base");
        let got = client.get_url(&fetch).unwrap();
        assert_eq!(got, Some(Downloaded::File(place.clone())));
        assert_eq!(std::fs::read(&place).unwrap(), b"content");
        for (path, mode) in [
            (dir.path().join("extrn_files"), 0o700),
            (place.clone(), 0o600),
        ] {
            let meta = std::fs::metadata(path).unwrap();
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777,
                mode
            );
        }
        let content = GetUrl {
            dest: None,
            ..fetch
        };
        let got = client.get_url(&content).unwrap();
        assert_eq!(got, Some(Downloaded::Content(b"content".to_vec())));
        // With the hash it is not fetched again.
        let digest = HashType::Sha256.hex(b"content");
        let kept = GetUrl {
            source_hash: Some(&digest),
            ..fetch
        };
        assert_eq!(client.get_url(&kept).unwrap(), got_file(&place));
        let tagged = GetUrl {
            use_etag: true,
            ..fetch
        };
        assert_eq!(client.get_url(&tagged).unwrap(), got_file(&place));
        assert_eq!(client.get_url(&tagged).unwrap(), got_file(&place));
        assert_eq!(std::fs::read(&place).unwrap(), b"content");
        let user = format!("http://u:p%40@127.0.0.1:{port}/user");
        let got = client.get_url(&GetUrl {
            dest: None,
            ..GetUrl::new(&user, "base")
        });
        assert_eq!(
            got.unwrap(),
            Some(Downloaded::Content(b"Basic dTpwQA==".to_vec()))
        );
        let none = format!("http://127.0.0.1:{port}/none?x=1");
        let why = client.get_url(&GetUrl::new(&none, "base")).unwrap_err();
        assert_eq!(why.to_string(), "Error: HTTP 404: Not Found reading /none");
        thread.join().unwrap();
    }

    #[test]
    fn no_link_beside_the_place_is_followed() {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let port = server.server_addr().to_ip().unwrap().port();
        let thread = std::thread::spawn(move || {
            let request = server.recv().unwrap();
            let sent = request
                .headers()
                .iter()
                .any(|h| h.field.equiv("If-None-Match"));
            let etag = tiny_http::Header::from_bytes("ETag", "\"1\"").unwrap();
            let answer = tiny_http::Response::from_string("content");
            request.respond(answer.with_header(etag)).unwrap();
            sent
        });
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("victim"), "kept").unwrap();
        std::fs::write(at("a"), "old").unwrap();
        for name in ["a.part", "a.etag"] {
            std::os::unix::fs::symlink(at("victim"), at(name)).unwrap();
        }
        let client = FileClient::new(&Context::default()).unwrap();
        let (url, place) = (format!("http://127.0.0.1:{port}/a"), at("a"));
        let fetch = GetUrl {
            dest: place.to_str(),
            use_etag: true,
            ..GetUrl::new(&url, "base")
        };
        assert_eq!(client.get_url(&fetch).unwrap(), got_file(&place));
        assert!(!thread.join().unwrap(), "the victim's content was sent");
        assert_eq!(std::fs::read(&place).unwrap(), b"content");
        assert_eq!(std::fs::read(at("victim")).unwrap(), b"kept");
        assert_eq!(std::fs::read(at("a.etag")).unwrap(), b"\"1\"");
    }

    fn got_file(place: &Path) -> Option<Downloaded> {
        Some(Downloaded::File(place.to_owned()))
    }

    #[test]
    fn errors_as_python_words_them() {
        let text = "native-tls: error:0A000086:SSL routines:x:certificate verify failed:../ssl/x.c:1889: (self-signed certificate)";
        assert_eq!(
            certificate_error(text.to_owned()),
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
        );
        assert_eq!(certificate_error("other".to_owned()), "other");
        assert_eq!(
            lookup_error("failed to lookup address information: Name or service not known"),
            "[Errno -2] Name or service not known"
        );
    }
}
