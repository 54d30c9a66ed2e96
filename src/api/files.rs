//! Files for browsers: the console, which is part of this program, and those of the settings `app` and `static`.

use crate::answer::{ApiError, Content, file};
use crate::request::Call;
use crate::routes::Endpoint;
use crate::service::{Handled, Reply, Service};
use halite_store::files::confined::{ConfinedPath, Links};
use halite_store::files::names;
use halite_sys::safe_open::read_regular;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue};
use std::io::Read;
use std::path::Path;

/// Largest file that is sent, in bytes.
const LARGEST: u64 = 8 << 20;
/// What pages of the console may do: use their own files and this service, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Media types by the end of names.
const MEDIA: &[(&str, &str)] = &[
    ("html", "text/html;charset=utf-8"),
    ("htm", "text/html;charset=utf-8"),
    ("css", "text/css;charset=utf-8"),
    ("js", "text/javascript;charset=utf-8"),
    ("mjs", "text/javascript;charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("txt", "text/plain;charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("ico", "image/vnd.microsoft.icon"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("wasm", "application/wasm"),
];

fn media_of(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let found = MEDIA.iter().find(|(one, _)| one.eq_ignore_ascii_case(end));
    found.map_or("application/octet-stream", |(_, media)| media)
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));

impl Service {
    pub(super) fn file(&self, endpoint: Endpoint, call: &Call) -> Handled {
        let rest = call.segments.get(1..).unwrap_or_default().join("/");
        let nothing = || ApiError::not_found(&format!("/{}", call.segments.join("/")));
        let (content, name, policy) = match endpoint {
            Endpoint::Asset if self.api.console => {
                let name = if rest.is_empty() { "index.html" } else { &rest };
                let found = CONSOLE.iter().find(|(one, _)| *one == name);
                let (name, content) = found.ok_or_else(nothing)?;
                return Ok(page(file(media_of(name), *content, None), Some(POLICY)));
            }
            Endpoint::Application => {
                let path = self.api.app.as_ref().ok_or_else(nothing)?;
                let content = read_regular(path, LARGEST).map_err(|_| nothing())?;
                (content, "index.html", None)
            }
            Endpoint::Static => {
                let root = self.api.static_dir.as_ref().ok_or_else(nothing)?;
                let content = below(root, &rest).ok_or_else(nothing)?;
                (content, rest.as_str(), None)
            }
            _ => return Err(nothing()),
        };
        Ok(page(file(media_of(name), content, None), policy))
    }
}

/// The content of a regular file below a directory; links may not lead out of it.
fn below(root: &Path, rest: &str) -> Option<Vec<u8>> {
    let path = ConfinedPath {
        root: root.to_owned(),
        rel: names::inside(rest)?,
        links: Links::Within,
    };
    let file = path.open().ok()?;
    let mut content = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut content).ok()?;
    (read as u64 <= LARGEST).then_some(content)
}

/// Pages of others may use what they bring with them: they were made for that.
const OF_OTHERS: &str = "frame-ancestors 'none'";

fn page(mut response: Response<Content>, policy: Option<&'static str>) -> Reply {
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(policy.unwrap_or(OF_OTHERS));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    // A new version of the program has other ones.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Reply::Whole(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_in_the_program() {
        let has = |name: &str| CONSOLE.iter().any(|(one, _)| *one == name);
        assert!(has("index.html") && has("app.js") && has("style.css"));
        for (name, content) in CONSOLE {
            assert_ne!(media_of(name), "application/octet-stream", "{name}");
            let text = std::str::from_utf8(content).unwrap();
            // Nothing comes from elsewhere; the name of SVG is no address that is asked.
            let text = text.replace("http://www.w3.org/", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{name}"
            );
        }
        let scripts = CONSOLE.iter().filter(|(name, _)| name.ends_with(".js"));
        let size: usize = scripts.map(|(_, content)| content.len()).sum();
        assert!(size < 300_000, "{size} bytes of scripts");
    }

    #[test]
    fn files_are_below_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(root.join("a/b.txt"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link")).unwrap();
        assert_eq!(below(&root, "a/b.txt"), Some(b"x".to_vec()));
        for wrong in [
            "",
            "a",
            "../secret",
            "a/../../secret",
            "link",
            "/etc/passwd",
        ] {
            assert_eq!(below(&root, wrong), None, "{wrong}");
        }
    }
}
