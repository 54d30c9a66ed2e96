//! The path in a load of a minion, with its `?` options
//! (`salt/fileserver/__init__.py Fileserver.find_file`, `salt/utils/url.py`).

use halite_wire::{Map, Value};

/// A path and the environment to search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestPath {
    pub path: String,
    pub env: String,
    /// Which directory of the environment to search, from `?index=`.
    pub index: Option<String>,
}

impl RequestPath {
    /// Parses `path` with `?saltenv=` and `?index=`; after a leading `|`, `?` is not special. `None` for
    /// paths that every backend refuses.
    pub fn parse(path: &str, env: &str) -> Option<RequestPath> {
        let mut request = RequestPath {
            path: path.into(),
            env: env.into(),
            index: None,
        };
        if let Some(escaped) = unescaped(path) {
            request.path = escaped;
        } else if let Some((path, rest)) = path.split_once('?') {
            request.path = path.into();
            let options = rest.split('?').next().unwrap_or_default();
            for (key, value) in options.split('&').filter_map(|o| o.split_once('=')) {
                match key {
                    "saltenv" => request.env = value.into(),
                    "index" => request.index = Some(value.into()),
                    _ => {}
                }
            }
        }
        request.checked()
    }

    /// A path in which `?` and `|` are not special. `None` for paths that every backend refuses.
    pub fn plain(path: &str, env: &str) -> Option<RequestPath> {
        let request = RequestPath {
            path: path.into(),
            env: env.into(),
            index: None,
        };
        request.checked()
    }

    fn checked(self) -> Option<RequestPath> {
        let bad = self.path.starts_with('/') || self.path.contains("../");
        (!bad && !self.path.contains('\0')).then_some(self)
    }
}

/// The path after the escape character `|`.
fn unescaped(path: &str) -> Option<String> {
    if path.starts_with('|') {
        return Some(path.trim_start_matches('|').into());
    }
    let below = path.strip_prefix("salt://")?.trim_start_matches('/');
    let below = below.strip_prefix('|')?;
    Some(format!("salt://{}", below.trim_start_matches('|')))
}

/// The environment of a load as Python's `str()` would print it; `None` if the key is missing.
pub(super) fn env_of(load: &Map) -> Option<String> {
    Some(match load.get("saltenv")? {
        Value::Nil => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        other => other.as_str().unwrap_or("\0").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Option<(String, String, Option<String>)> {
        RequestPath::parse(path, "base").map(|w| (w.path, w.env, w.index))
    }

    fn some(
        path: &str,
        env: &str,
        index: Option<&str>,
    ) -> Option<(String, String, Option<String>)> {
        Some((path.into(), env.into(), index.map(str::to_owned)))
    }

    #[test]
    fn options_are_parsed_unless_the_path_is_escaped() {
        assert_eq!(parse("a/b"), some("a/b", "base", None));
        assert_eq!(parse("a?saltenv=dev"), some("a", "dev", None));
        assert_eq!(
            parse("a?x&index=1&saltenv=d=e?y"),
            some("a", "d=e", Some("1"))
        );
        assert_eq!(parse("a?env=dev"), some("a", "base", None));
        assert_eq!(parse("|a?saltenv=dev"), some("a?saltenv=dev", "base", None));
        assert_eq!(parse("||?f"), some("?f", "base", None));
        assert_eq!(parse("a|b"), some("a|b", "base", None));
        assert_eq!(parse("salt://|x?y"), some("salt://x?y", "base", None));
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for bad in [
            "/etc/passwd",
            "../x",
            "a/../x",
            "|/etc",
            "|../x",
            "a\0",
            "||/x",
            "/a?saltenv=x",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
