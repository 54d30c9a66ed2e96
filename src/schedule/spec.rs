//! One scheduled job as it is written.

use super::when::Moment;
use halite_wire::{Map, Value};
use jiff::civil::DateTime;

/// When a job runs.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// Every so many seconds.
    Every(i64),
    /// At one of these.
    When(Vec<Moment>),
    /// At one time.
    Once(DateTime),
    /// As cron would.
    Cron(Box<cronexpr::Crontab>),
}

/// A span between two moments.
#[derive(Clone, Debug)]
pub struct Range {
    start: Moment,
    end: Moment,
    invert: bool,
}

impl Range {
    /// Whether `now` lies within, or with `invert` outside.
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

    /// Whether it is what lies outside that is meant.
    pub fn is_inverted(&self) -> bool {
        self.invert
    }

    /// When it ends, seen from `now`.
    pub fn end(&self, now: DateTime) -> Option<DateTime> {
        self.end.on(now)
    }

    /// When [`Range::holds`] will be true next, if it is not.
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
    /// Keyword arguments are written, if only none.
    names_kwargs: bool,
    /// When it runs.
    pub trigger: Trigger,
    /// Seconds that are added by chance, from and to.
    pub splay: Option<(i64, i64)>,
    /// Runs only then.
    pub range: Option<Range>,
    /// Does not run then.
    pub skip: Option<Range>,
    /// Runs when that range is over (`run_after_skip_range`).
    pub run_after_skip: bool,
    /// Does not run before.
    pub after: Option<Moment>,
    /// Does not run after.
    pub until: Option<Moment>,
    /// Runs at the start as well; `None` is what the series of Salt does.
    pub run_on_start: Option<bool>,
    /// Whether it runs at all.
    pub enabled: bool,
    /// How many of it may run at once; `None` is any number.
    pub maxrunning: Option<i64>,
    /// What becomes of the result.
    pub return_job: ReturnJob,
    /// What its returns say besides.
    metadata: Option<Map>,
    /// Whether its runs are counted and found, which `maxrunning` needs (`jid_include`).
    pub counted: bool,
    /// Nothing runs (`dry_run`).
    pub dry: bool,
    /// Who gets the result, besides or in place of those of the option `schedule_returner`.
    pub returners: Vec<String>,
    /// Settings of theirs: `return_config` and `return_kwargs`.
    return_config: Option<Value>,
    return_kwargs: Option<Value>,
    /// Times at which it runs besides (`run_explicit`).
    pub run_at: Vec<DateTime>,
    /// Times at which it does not run (`skip_explicit`).
    pub skip_at: Vec<DateTime>,
}

/// What becomes of a result (`return_job`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnJob {
    /// It is told and kept in the job cache.
    Kept,
    /// It is told.
    NoCache,
    /// Nothing.
    Untold,
}

/// What a job that was scheduled leaves behind in its `metadata`, besides what is written there: the zone,
/// and when it began.
fn began(metadata: &Map, now: &jiff::Zoned, zone: &str) -> Map {
    let utc = now.with_time_zone(jiff::tz::TimeZone::UTC);
    let mut out = metadata.clone();
    out.set("_TOS", zone);
    out.set("_TS", now.strftime("%a %b %e %H:%M:%S %Y").to_string());
    // The last is the month once more.
    out.set("_TT", utc.strftime("%Y %B %d %a %H %m").to_string());
    out
}

impl ReturnJob {
    /// What stands for the jid where the result is told.
    pub fn jid(self) -> Option<&'static str> {
        match self {
            ReturnJob::Kept => Some("req"),
            ReturnJob::NoCache => Some("nocache"),
            ReturnJob::Untold => None,
        }
    }
}

impl Spec {
    /// Reads a job.
    ///
    /// # Errors
    /// What is wrong, for the administrator.
    pub fn parse(name: &str, data: &Map) -> Result<Spec, String> {
        let function = data
            .str("function")
            .or_else(|| data.str("func"))
            .or_else(|| data.str("fun"))
            .ok_or("it names no function; add `function: test.arg`, say")?;
        let flag = |key: &str, default| data.get(key).map_or(default, Value::truthy);
        let at = |key: &str| match data.get(key) {
            None => Ok(None),
            Some(value) => moment(value).map(Some),
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
                Some(_) => return Err("`kwargs` is a map".to_owned()),
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
                Some(value) if !value.truthy() => ReturnJob::Untold,
                _ => ReturnJob::Kept,
            },
            metadata: match data.get("metadata") {
                Some(Value::Map(map)) => Some(map.clone()),
                None => None,
                Some(_) => {
                    log::warn!("schedule: {name}: `metadata` is no map and is left out");
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

    /// The settings for its returners, by the keys under which they travel in a load.
    pub fn return_settings(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let config = self.return_config.iter().map(|value| ("ret_config", value));
        config.chain(self.return_kwargs.iter().map(|value| ("ret_kwargs", value)))
    }

    /// What the return of a run that begins now says under `metadata`; `zone` is what it says of the zone.
    pub fn metadata(&self, now: &jiff::Zoned, zone: &str) -> Option<Map> {
        self.metadata
            .as_ref()
            .map(|metadata| began(metadata, now, zone))
    }

    /// The keyword arguments, if the job names any or says that there are none.
    pub fn given_kwargs(&self) -> Option<&Map> {
        self.names_kwargs.then_some(&self.kwargs)
    }
}

/// Names of returners: a text, or a list of texts.
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
                    .map_err(|_| format!("`{unit}` is a whole number, not {text:?}"))?,
                Some(_) => return Err(format!("`{unit}` is a whole number")),
            };
            total = total.saturating_add(count.saturating_mul(seconds));
        }
        if total <= 0 {
            return Err("an interval is longer than nothing".to_owned());
        }
        found.push(Trigger::Every(total));
    }
    if let Some(when) = data.get("when") {
        let list = match when {
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        let moments: Result<Vec<Moment>, String> = list.iter().map(moment).collect();
        found.push(Trigger::When(moments?));
    }
    if let Some(once) = data.get("once") {
        let at = match (data.str("once_fmt"), once.as_str()) {
            (Some(form), Some(text)) => Some(strptime(form, text)?),
            _ => moment(once)?.once(),
        };
        match at {
            Some(at) => found.push(Trigger::Once(at)),
            None => return Err("`once` is a date with a time".to_owned()),
        }
    }
    if let Some(cron) = data.get("cron") {
        let text = cron
            .as_str()
            .ok_or("`cron` is a text such as `*/15 * * * *`")?;
        let expression = format!("{} UTC", text.trim());
        let cron =
            cronexpr::parse_crontab(&expression).map_err(|e| format!("`cron: {text}`: {e}"))?;
        found.push(Trigger::Cron(Box::new(cron)));
    }
    let count = found.len();
    match found.pop() {
        Some(trigger) if count == 1 => Ok(trigger),
        Some(_) => Err(
            "several of seconds/minutes/hours/days, when, once and cron are given; one is enough"
                .to_owned(),
        ),
        None => Err(
            "it says not when: give seconds, minutes, hours, days, when, once or cron".to_owned(),
        ),
    }
}

/// Times with their forms (`{time: ..., time_fmt: ...}`).
fn explicit(value: Option<&Value>) -> Result<Vec<DateTime>, String> {
    let list = value.and_then(Value::as_array).unwrap_or_default();
    let one = |entry: &Value| {
        let map = entry.as_map();
        let time = map.and_then(|m| m.str("time")).ok_or("a time is missing")?;
        let form = map.and_then(|m| m.str("time_fmt"));
        strptime(form.unwrap_or("%Y-%m-%dT%H:%M:%S"), time)
    };
    list.iter().map(one).collect()
}

/// A time in a form of `strptime`.
pub fn strptime(form: &str, text: &str) -> Result<DateTime, String> {
    DateTime::strptime(form, text)
        .or_else(|_| jiff::civil::Date::strptime(form, text).map(|d| d.at(0, 0, 0, 0)))
        .map_err(|_| format!("Date string could not be parsed: {text}, {form}"))
}

fn moment(value: &Value) -> Result<Moment, String> {
    match value {
        Value::Str(text) => Moment::parse(text),
        _ => Err("a time is a text; quote it".to_owned()),
    }
}

/// `30` is from 1 to 30 seconds, a map gives both ends.
fn splay(value: Option<&Value>) -> Result<Option<(i64, i64)>, String> {
    let ends = match value {
        None => return Ok(None),
        Some(none) if !none.truthy() => return Ok(None),
        Some(Value::Int(most)) => (1, *most),
        Some(Value::Map(map)) => match (map.int("start"), map.int("end")) {
            (Some(start), Some(end)) => (start, end),
            _ => return Err("`splay` has `start` and `end` in seconds".to_owned()),
        },
        Some(_) => return Err("`splay` is a number of seconds or `start` and `end`".to_owned()),
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
        Some(_) => return Err("a range has `start` and `end`".to_owned()),
    };
    let end = |key: &str| {
        map.get(key)
            .ok_or(format!("a range needs `{key}`"))
            .and_then(moment)
    };
    Ok(Some(Range {
        start: end("start")?,
        end: end("end")?,
        invert: map.get("invert").is_some_and(Value::truthy),
    }))
}
