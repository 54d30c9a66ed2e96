//! Channels: their form in messages, and finding the one that an opened path refers to (reference, section 6).

use super::fields::{Fields, Read, SHORT};
use super::{BadName, Channel, ChannelPath, Json, Mode, Object, Topic};

/// Limit of channels per module.
pub(super) const MAX_CHANNELS: usize = 256;

impl Channel {
    /// A channel with a path and a topic, without further fields.
    ///
    /// # Errors
    /// The path or the topic is invalid.
    pub fn new(path: &str, mode: Mode, topic: &str) -> Result<Channel, BadName> {
        Ok(Channel {
            path: path.parse()?,
            mode,
            topic: topic.parse()?,
            extra: Object::new(),
        })
    }

    /// Parses an entry of `channels`: `path`, `mode` and `topic`, or the web client's form, with the topic in
    /// `params`.
    pub(super) fn read(value: Json, at: &str) -> Read<Channel> {
        let mut fields = Fields::new(value, at)?;
        let path = fields.text("path", SHORT)?;
        let path = path.ok_or_else(|| fields.missing("path"))?;
        let path = plain(&path).parse().map_err(|_| fields.bad("path"))?;
        let mode = fields.required("mode")?;
        let topic: Option<Topic> = fields.parsed("topic")?;
        let missing = fields.missing("topic");
        let extra = fields.rest();
        let topic = match (topic, extra.get("params")) {
            (Some(topic), _) => topic,
            (None, Some(params)) => {
                Fields::new(params.clone(), format!("{at}/params"))?.required("topic")?
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

    /// The channel in the form of requests and records.
    pub(super) fn to_json(&self) -> Json {
        let mut out = Object::new();
        out.insert("path".into(), self.path.as_str().into());
        out.insert("mode".into(), self.mode.word().into());
        out.insert("topic".into(), self.topic.as_str().into());
        super::write::add(&mut out, &self.extra);
        out.into()
    }

    /// The channel that the path `opened` refers to, and its topic: the channel with the longest path that is a prefix
    /// of it in whole parts, and its topic with the rest appended. `/ch/light/data` refers to `light`, unless there is
    /// a channel `ch`. `None` if there is no such channel, or the rest is not valid in a topic.
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

/// The path of a channel without what peers add: slashes, and the directory `/ch/` of browser runtimes.
fn plain(path: &str) -> &str {
    path.strip_prefix("/ch/").unwrap_or(path).trim_matches('/')
}

/// The channel with the longest path that `path` starts with, and the rest.
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
