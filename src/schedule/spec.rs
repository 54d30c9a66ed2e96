//! The configuration of one scheduled job.

use super::when::Moment;
use halite_wire::{Map, Value};
use jiff::civil::DateTime;

/// When a job runs.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// Every this many seconds.
    Every(i64),
    /// At each of these times.
    When(Vec<Moment>),
    /// Once, at this time.
    Once(DateTime),
    /// According to a cron expression.
    Cron(Box<cronexpr::Crontab>),
}

/// A time range.
#[derive(Clone, Debug)]
pub struct Range {
    start: Moment,
    end: Moment,
    invert: bool,
}

impl Range {
    /// Whether `now` is within the range, or outside it with `invert`.
    pub fn holds(&self, now: DateTime) -> bool {
        let (Some(start), Some(end)) = (self.start.on(now), self.end.on(now)) else {
            return false;
        };
        if self.invert {
            now <= start || now >= end
        } else {
            start <= now && now <= end
        }
    }

    /// Whether the range is inverted.
    pub fn is_inverted(&self) -> bool {
        self.invert
    }

    /// When the range ends, as of `now`.
    pub fn end(&self, now: DateTime) -> Option<DateTime> {
        self.end.on(now)
    }

    /// When [`Range::holds`] will next be true, if it is false now.
    pub fn opens(&self, now: DateTime) -> Option<DateTime> {
        if self.invert {
            self.end.on(now).filter(|end| *end > now)
        } else {
            self.start.after(now)
        }
    }
}

/// A scheduled job.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// The function.
    pub function: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// Keyword arguments.
    pub kwargs: Map,
    /// Whether the job has the key `kwargs`, even an empty one.
    names_kwargs: bool,
    /// When it runs.
    pub trigger: Trigger,
    /// Random delay in seconds: minimum and maximum.
    pub splay: Option<(i64, i64)>,
    /// Runs only within this range (`range`).
    pub range: Option<Range>,
    /// Does not run within this range (`skip_during_range`).
    pub skip: Option<Range>,
    /// Runs at the end of `skip` (`run_after_skip_range`).
    pub run_after_skip: bool,
    /// Runs only after this time (`after`).
    pub after: Option<Moment>,
    /// Runs only until this time (`until`).
    pub until: Option<Moment>,
    /// Whether it also runs at the start; `None` is the default of the Salt release.
    pub run_on_start: Option<bool>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Maximum number of concurrent runs; `None` is unlimited.
    pub maxrunning: Option<i64>,
    /// What happens to the result.
    pub return_job: ReturnJob,
    /// `metadata`, added to its returns.
    metadata: Option<Map>,
    /// Whether its runs have jid files, which `maxrunning` needs (`jid_include`).
    pub counted: bool,
    /// `dry_run`: the function is not run.
    pub dry: bool,
    /// `returner`: returners of the result, besides those of the option `schedule_returner` or in their place.
    pub returners: Vec<String>,
    /// Settings of the returners: `return_config` and `return_kwargs`.
    return_config: Option<Value>,
    return_kwargs: Option<Value>,
    /// Additional run times (`run_explicit`).
    pub run_at: Vec<DateTime>,
    /// Times at which it does not run (`skip_explicit`).
    pub skip_at: Vec<DateTime>,
}

/// What happens to a result (`return_job`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnJob {
    /// It is sent to the master, which stores it in the job cache.
    Cached,
    /// It is sent to the master but not stored in the job cache.
    NoCache,
    /// It is not sent.
    Discarded,
}

/// The `metadata` of a return: the configured map, the zone and the start time.
fn began(metadata: &Map, now: &jiff::Zoned, zone: &str) -> Map {
    let utc = now.with_time_zone(jiff::tz::TimeZone::UTC);
    let mut out = metadata.clone();
    out.set("_TOS", zone);
    out.set("_TS", now.strftime("%a %b %e %H:%M:%S %Y").to_string());
    // Ends with the month a second time, as in stock.
    out.set("_TT", utc.strftime("%Y %B %d %a %H %m").to_string());
    out
}

impl ReturnJob {
    /// The jid under which the result is sent, if it is sent.
    pub fn jid(self) -> Option<&'static str> {
        match self {
            ReturnJob::Cached => Some("req"),
            ReturnJob::NoCache => Some("nocache"),
            ReturnJob::Discarded => None,
        }
    }
}

impl Spec {
    /// Parses a job.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(name: &str, data: &Map) -> Result<Spec, String> {
        let function = data
            .str("function")
            .or_else(|| data.str("func"))
            .or_else(|| data.str("fun"))
            .ok_or("no function given; add one, such as `function: test.arg`")?;
        let flag = |key: &str, default| data.get(key).map_or(default, Value::truthy);
        let at = |key: &str| match data.get(key) {
            None => Ok(None),
            Some(value) => parse_moment(value).map(Some),
        };
        Ok(Spec {
            name: name.to_owned(),
            function: function.to_owned(),
            args: match data.get("args") {
                None | Some(Value::Nil) => Vec::new(),
                Some(Value::Array(list)) => list.clone(),
                Some(one) => vec![one.clone()],
            },
            kwargs: match data.get("kwargs") {
                None | Some(Value::Nil) => Map::new(),
                Some(Value::Map(map)) => map.clone(),
                Some(_) => return Err("`kwargs` must be a map".to_owned()),
            },
            names_kwargs: data.contains("kwargs"),
            trigger: trigger(data)?,
            splay: splay(data.get("splay"))?,
            range: range(data.get("range"))?,
            skip: range(data.get("skip_during_range"))?,
            run_after_skip: flag("run_after_skip_range", false),
            after: at("after")?,
            until: at("until")?,
            run_on_start: data.get("run_on_start").map(Value::truthy),
            enabled: flag("enabled", true),
            maxrunning: match data.get("maxrunning") {
                None => Some(1),
                Some(value) => value.as_int(),
            },
            return_job: match data.get("return_job") {
                Some(value) if value.is_str("nocache") => ReturnJob::NoCache,
                Some(value) if !value.truthy() => ReturnJob::Discarded,
                _ => ReturnJob::Cached,
            },
            metadata: match data.get("metadata") {
                Some(Value::Map(map)) => Some(map.clone()),
                None => None,
                Some(_) => {
                    log::warn!("schedule: {name}: ignoring `metadata`, which is not a map");
                    None
                }
            },
            counted: flag("jid_include", true),
            dry: flag("dry_run", false),
            returners: returners(data.get("returner")),
            return_config: data.get("return_config").cloned(),
            return_kwargs: data.get("return_kwargs").cloned(),
            run_at: explicit(data.get("run_explicit"))?,
            skip_at: explicit(data.get("skip_explicit"))?,
        })
    }

    /// The settings for its returners, by their keys in a load.
    pub fn return_settings(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let config = self.return_config.iter().map(|value| ("ret_config", value));
        config.chain(self.return_kwargs.iter().map(|value| ("ret_kwargs", value)))
    }

    /// The `metadata` of the return of a run that starts now; `zone` is the text for the time zone.
    pub fn metadata(&self, now: &jiff::Zoned, zone: &str) -> Option<Map> {
        self.metadata
            .as_ref()
            .map(|metadata| began(metadata, now, zone))
    }

    /// The keyword arguments, if the job has the key `kwargs`.
    pub fn given_kwargs(&self) -> Option<&Map> {
        self.names_kwargs.then_some(&self.kwargs)
    }
}

/// Names of returners from text or a list of text.
pub fn returners(value: Option<&Value>) -> Vec<String> {
    let all = match value {
        Some(Value::Str(one)) => vec![one.clone()],
        other => other.map(Value::str_list).unwrap_or_default(),
    };
    all.into_iter().filter(|name| !name.is_empty()).collect()
}

fn trigger(data: &Map) -> Result<Trigger, String> {
    let mut found = Vec::new();
    let units = [
        ("seconds", 1),
        ("minutes", 60),
        ("hours", 3600),
        ("days", 86_400),
    ];
    if units.iter().any(|(unit, _)| data.contains(unit)) {
        let mut total: i64 = 0;
        for (unit, seconds) in units {
            let count = match data.get(unit) {
                None => 0,
                Some(Value::Int(n)) => *n,
                Some(Value::Str(text)) => text
                    .parse()
                    .map_err(|_| format!("`{unit}` must be a whole number, not {text:?}"))?,
                Some(_) => return Err(format!("`{unit}` must be a whole number")),
            };
            total = total.saturating_add(count.saturating_mul(seconds));
        }
        if total <= 0 {
            return Err("the interval must be greater than 0".to_owned());
        }
        found.push(Trigger::Every(total));
    }
    if let Some(when) = data.get("when") {
        let list = match when {
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        let moments: Result<Vec<Moment>, String> = list.iter().map(parse_moment).collect();
        found.push(Trigger::When(moments?));
    }
    if let Some(once) = data.get("once") {
        let at = match (data.str("once_fmt"), once.as_str()) {
            (Some(form), Some(text)) => Some(strptime(form, text)?),
            _ => parse_moment(once)?.once(),
        };
        match at {
            Some(at) => found.push(Trigger::Once(at)),
            None => return Err("`once` must be a date and time".to_owned()),
        }
    }
    if let Some(cron) = data.get("cron") {
        let text = cron
            .as_str()
            .ok_or("`cron` must be text such as `*/15 * * * *`")?;
        let expression = format!("{} UTC", text.trim());
        let cron =
            cronexpr::parse_crontab(&expression).map_err(|e| format!("`cron: {text}`: {e}"))?;
        found.push(Trigger::Cron(Box::new(cron)));
    }
    let count = found.len();
    match found.pop() {
        Some(trigger) if count == 1 => Ok(trigger),
        Some(_) => Err(
            "several of seconds/minutes/hours/days, when, once and cron are given; keep one"
                .to_owned(),
        ),
        None => {
            Err("no time given: add seconds, minutes, hours, days, when, once or cron".to_owned())
        }
    }
}

/// Times with their formats (`{time: ..., time_fmt: ...}`).
fn explicit(value: Option<&Value>) -> Result<Vec<DateTime>, String> {
    let list = value.and_then(Value::as_array).unwrap_or_default();
    let one = |entry: &Value| {
        let map = entry.as_map();
        let time = map
            .and_then(|m| m.str("time"))
            .ok_or("`time` is missing in `run_explicit` or `skip_explicit`")?;
        let form = map.and_then(|m| m.str("time_fmt"));
        strptime(form.unwrap_or("%Y-%m-%dT%H:%M:%S"), time)
    };
    list.iter().map(one).collect()
}

/// Parses a time by a `strptime` format. The error is stock's.
pub fn strptime(form: &str, text: &str) -> Result<DateTime, String> {
    DateTime::strptime(form, text)
        .or_else(|_| jiff::civil::Date::strptime(form, text).map(|d| d.at(0, 0, 0, 0)))
        .map_err(|_| format!("Date string could not be parsed: {text}, {form}"))
}

fn parse_moment(value: &Value) -> Result<Moment, String> {
    match value {
        Value::Str(text) => Moment::parse(text),
        _ => Err("a time must be text; quote it".to_owned()),
    }
}

/// `30` means 1 to 30 seconds; a map gives both limits.
fn splay(value: Option<&Value>) -> Result<Option<(i64, i64)>, String> {
    let ends = match value {
        None => return Ok(None),
        Some(none) if !none.truthy() => return Ok(None),
        Some(Value::Int(most)) => (1, *most),
        Some(Value::Map(map)) => match (map.int("start"), map.int("end")) {
            (Some(start), Some(end)) => (start, end),
            _ => return Err("`splay` must have `start` and `end` in seconds".to_owned()),
        },
        Some(_) => {
            return Err(
                "`splay` must be a number of seconds, or a map with `start` and `end`".to_owned(),
            );
        }
    };
    match ends {
        (least, most) if 0 <= least && least <= most => Ok(Some(ends)),
        _ => Err("`splay` must not end before it starts".to_owned()),
    }
}

fn range(value: Option<&Value>) -> Result<Option<Range>, String> {
    let map = match value {
        None | Some(Value::Nil) => return Ok(None),
        Some(Value::Map(map)) => map,
        Some(_) => return Err("a range must be a map with `start` and `end`".to_owned()),
    };
    let end = |key: &str| {
        map.get(key)
            .ok_or(format!("a range needs `{key}`"))
            .and_then(parse_moment)
    };
    Ok(Some(Range {
        start: end("start")?,
        end: end("end")?,
        invert: map.get("invert").is_some_and(Value::truthy),
    }))
}
