//! Paths that a module opens: the channels they refer to, and the directories above these. Nothing else can be opened.

use crate::wire::{Channel, Mode};
use std::sync::Arc;

/// What a path refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathTarget {
    /// A channel.
    Channel {
        /// The topic behind it.
        topic: Arc<str>,
        /// What the module may do with it.
        mode: Mode,
    },
    /// A directory: `/`, `/ch`, or a parent of a channel's path.
    Folder,
    /// Nothing.
    Nothing,
}

/// A path relative to a directory, without empty parts, `.` and `..`; the root is empty. `None` if it leads above the
/// root or is not valid.
pub(super) fn join(base: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What a path returned by [`join`] refers to.
pub(super) fn find(channels: &[Channel], path: &str) -> PathTarget {
    if let Some((channel, topic)) = Channel::resolve(channels, path) {
        return PathTarget::Channel {
            topic: topic.as_str().into(),
            mode: channel.mode,
        };
    }
    let below = |folder: &str| {
        let begins = |channel: &Channel| {
            let rest = channel.path.as_str().strip_prefix(folder);
            folder.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
        };
        folder.is_empty() || channels.iter().any(begins)
    };
    let short = match path {
        "ch" => Some(""),
        path => path.strip_prefix("ch/"),
    };
    if below(path) || short.is_some_and(below) {
        PathTarget::Folder
    } else {
        PathTarget::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(path: &str, mode: Mode, topic: &str) -> Channel {
        Channel::new(path, mode, topic).expect("a path and a topic")
    }

    fn channels() -> Vec<Channel> {
        vec![
            channel("light", Mode::ReadWrite, "realm/kitchen/light"),
            channel("light/main", Mode::Read, "realm/hall/main"),
            channel("sensors/a", Mode::Write, "realm/a"),
        ]
    }

    fn topic(path: &str) -> Option<String> {
        match find(&channels(), path) {
            PathTarget::Channel { topic, .. } => Some(topic.to_string()),
            _ => None,
        }
    }

    #[test]
    fn paths_mean_channels() {
        let cases = [
            ("light", "realm/kitchen/light"),
            ("light/status", "realm/kitchen/light/status"),
            ("light/main", "realm/hall/main"),
            ("light/main/x", "realm/hall/main/x"),
            ("light/mainx", "realm/kitchen/light/mainx"),
            ("ch/light", "realm/kitchen/light"),
            ("ch/light/data", "realm/kitchen/light"),
            ("light/data", "realm/kitchen/light/data"),
            ("sensors/a", "realm/a"),
        ];
        for (path, expected) in cases {
            assert_eq!(topic(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["light2", "sensors", "x", "", "ch", "light/+", "light/a#"] {
            assert_eq!(topic(path), None, "{path}");
        }
    }

    #[test]
    fn folders_are_what_channels_are_below() {
        for path in ["", "ch", "sensors", "ch/sensors"] {
            assert_eq!(find(&channels(), path), PathTarget::Folder, "{path:?}");
        }
        for path in ["s", "sensor", "ch/x", "etc/passwd"] {
            assert_eq!(find(&channels(), path), PathTarget::Nothing, "{path:?}");
        }
    }

    #[test]
    fn nothing_leads_out() {
        assert_eq!(
            join("", "light//./status/").as_deref(),
            Some("light/status")
        );
        assert_eq!(join("ch", "../light").as_deref(), Some("light"));
        assert_eq!(join("", "light/..").as_deref(), Some(""));
        for path in ["..", "light/../..", "/light", "a\0b", "../../etc/passwd"] {
            assert_eq!(join("", path), None, "{path:?}");
        }
    }
}
