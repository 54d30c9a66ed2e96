//! Channels: as messages carry them, and which one a module means by what it opens (reference, section 6).

use super::fields::{Fields, Read, SHORT};
use super::{BadName, Channel, ChannelPath, Json, Mode, Object, Topic};

/// Channels of one module at most.
pub(super) const MAX_CHANNELS: usize = 256;

impl Channel {
    /// A channel of a path and a topic, with nothing else.
    ///
    /// # Errors
    /// The path or the topic is none.
    pub fn new(path: &str, mode: Mode, topic: &str) -> Result<Channel, BadName> {
        Ok(Channel {
            path: path.parse()?,
            mode,
            topic: topic.parse()?,
            extra: Object::new(),
        })
    }

    /// Reads an entry of `channels`: `path`, `mode` and `topic`, or that of the web client, where the topic stands in `params`.
    pub(super) fn read(value: Json, at: &str) -> Read<Channel> {
        let mut fields = Fields::new(value, at)?;
        let path = fields.text("path", SHORT)?;
        let path = path.ok_or_else(|| fields.missing("path"))?;
        let path = plain(&path).parse().map_err(|_| fields.bad("path"))?;
        let mode = fields.needed("mode")?;
        let topic: Option<Topic> = fields.parsed("topic")?;
        let missing = fields.missing("topic");
        let extra = fields.rest();
        let topic = match (topic, extra.get("params")) {
            (Some(topic), _) => topic,
            (None, Some(params)) => {
                Fields::new(params.clone(), format!("{at}/params"))?.needed("topic")?
            }
            (None, None) => return Err(missing),
        };
        Ok(Channel {
            path,
            mode,
            topic,
            extra,
        })
    }

    /// The channel as requests and records carry it.
    pub(super) fn to_json(&self) -> Json {
        let mut out = Object::new();
        out.insert("path".into(), self.path.as_str().into());
        out.insert("mode".into(), self.mode.word().into());
        out.insert("topic".into(), self.topic.as_str().into());
        super::write::add(&mut out, &self.extra);
        out.into()
    }

    /// Which channel a module means that opens `opened`, and the topic behind it: that of the channel whose path is the longest
    /// beginning of it in whole parts, with the rest appended. `/ch/light/data` is `light`, unless there is a channel `ch`.
    /// `None`: there is no such channel, or the rest is nothing that a topic may have.
    pub fn resolve<'a>(channels: &'a [Channel], opened: &str) -> Option<(&'a Channel, Topic)> {
        let path: ChannelPath = opened.trim_matches('/').parse().ok()?;
        let direct = longest(channels, path.as_str());
        let (channel, rest) = direct.or_else(|| {
            let folder = path.as_str().strip_prefix("ch/")?;
            longest(channels, folder.strip_suffix("/data").unwrap_or(folder))
        })?;
        let topic = match rest {
            "" => channel.topic.clone(),
            rest => format!("{}/{rest}", channel.topic).parse().ok()?,
        };
        Some((channel, topic))
    }
}

/// The path of a channel without what peers put around it: slashes, and the folder `/ch/` of the browser's runtimes.
fn plain(path: &str) -> &str {
    path.strip_prefix("/ch/").unwrap_or(path).trim_matches('/')
}

/// The channel with the longest path that `path` begins with, and what follows.
fn longest<'a, 'p>(channels: &'a [Channel], path: &'p str) -> Option<(&'a Channel, &'p str)> {
    let mut best: Option<(&Channel, &str)> = None;
    for channel in channels {
        let Some(rest) = path.strip_prefix(channel.path.as_str()) else {
            continue;
        };
        let rest = match rest.strip_prefix('/') {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => continue,
        };
        let known = |(best, _): &(&Channel, &str)| best.path.as_str().len();
        if best
            .as_ref()
            .is_none_or(|best| known(best) < channel.path.as_str().len())
        {
            best = Some((channel, rest));
        }
    }
    best
}
