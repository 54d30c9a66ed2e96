//! `salt://` URLs (`salt/utils/url.py`).

/// URL scheme of the file server.
pub const SCHEME: &str = "salt://";

/// Splits a URL into path and environment; anything but `salt://` is a plain path (`parse`).
pub fn parse(url: &str) -> (&str, Option<&str>) {
    let Some(resource) = url.strip_prefix(SCHEME) else {
        return (url, None);
    };
    let (path, env) = if let Some((path, _)) = resource.split_once("?env=") {
        (path, None)
    } else if let Some((path, env)) = resource.split_once("?saltenv=") {
        (path, Some(env))
    } else {
        (resource, None)
    };
    (path.trim_start_matches('/'), env.filter(|e| !e.is_empty()))
}

/// Builds a URL (`create`).
pub fn create(path: &str, saltenv: Option<&str>) -> String {
    let path = path.replace('\\', "/");
    match saltenv.filter(|env| !env.is_empty()) {
        Some(env) => format!("{SCHEME}{path}?saltenv={env}"),
        None => format!("{SCHEME}{path}"),
    }
}

/// Whether a `|` before the path marks it as literal (`is_escaped`).
pub fn is_escaped(url: &str) -> bool {
    parse(url).0.starts_with('|')
}

/// Adds that `|` (`escape`).
pub fn escape(url: &str) -> String {
    let (path, env) = parse(url);
    let path = match path.starts_with('|') {
        true => path.to_owned(),
        false => format!("|{path}"),
    };
    match url.starts_with(SCHEME) {
        true => create(&path, env),
        false => path,
    }
}

/// A relative path to join to a directory, without leading `/` and `|`; `None` if it leads out of the directory or
/// names nothing in it.
pub fn relative_path(path: &str) -> Option<&str> {
    let path = path.trim_start_matches(['|', '/']);
    let mut parts = path.split('/').filter(|p| !p.is_empty() && *p != ".");
    let inside = parts.clone().all(|p| p != "..") && parts.next().is_some();
    (inside && !path.contains('\0')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_as_in_salt() {
        assert_eq!(parse("salt://a/b"), ("a/b", None));
        assert_eq!(parse("salt:///a"), ("a", None));
        assert_eq!(parse("salt://a?saltenv=dev"), ("a", Some("dev")));
        assert_eq!(parse("salt://a?env=dev"), ("a", None));
        assert_eq!(parse("/etc/motd"), ("/etc/motd", None));
        assert_eq!(create("a\\b", None), "salt://a/b");
        assert_eq!(create("a", Some("dev")), "salt://a?saltenv=dev");
        assert!(is_escaped("salt://|a?b") && !is_escaped("salt://a|b"));
        assert_eq!(escape("salt://a?saltenv=x"), "salt://|a?saltenv=x");
        assert_eq!(escape("/a"), "|/a");
    }

    #[test]
    fn paths_outside_are_detected() {
        assert_eq!(relative_path("a/b"), Some("a/b"));
        assert_eq!(relative_path("|?a"), Some("?a"));
        for bad in ["", "/", "..", "a/../b", ".", "a/..", "a\0b"] {
            assert_eq!(relative_path(bad), None, "{bad:?}");
        }
    }
}
