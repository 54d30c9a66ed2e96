//! `fleet.status`: master and fleet on one screen. Not one of Salt's runners.

use super::{Function, RunContext, RunError, RunnerOutput};
use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::keys::KeyState;
use halite_wire::{Map, Value};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Far more than the figures of any fleet need, in bytes.
const MOST: u64 = 16 << 20;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "fleet.status",
    args: &[],
    doc: "Figures about the master and its fleet: connected minions, versions, queues, losses, jobs, restarts. If the master is down, only the keys.",
    run: |context, _| status(context),
}];

fn status(context: &mut RunContext) -> Result<RunnerOutput, RunError> {
    let config = &context.config;
    let path = config.master_status();
    let answer = match read_metrics(&path) {
        Ok(text) => running_status(&Samples::parse(&text)),
        Err(e) => stopped_status(config, &format!("{}: {e}", path.display()))?,
    };
    Ok(Value::Map(answer).into())
}

fn read_metrics(path: &std::path::Path) -> io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut text = String::new();
    stream.take(MOST).read_to_string(&mut text)?;
    Ok(text)
}

fn stopped_status(config: &MasterConfig, why: &str) -> io::Result<Map> {
    let store = Stores::open(config).keys;
    let mut keys = Map::new();
    for state in [
        KeyState::Accepted,
        KeyState::Pending,
        KeyState::Rejected,
        KeyState::Denied,
    ] {
        keys.set(state.name(), store.list(state)?.len());
    }
    let master = halite_wire::map! {"running" => false, "reason" => why};
    Ok(halite_wire::map! {"master" => master, "keys" => keys})
}

fn running_status(samples: &Samples) -> Map {
    let since = jiff::Timestamp::from_second(samples.one("halite_start_time_seconds") as i64);
    let queues = samples.by("halite_request_queue_depth", "class");
    let restarts: Map = samples
        .by("halite_role_restarts_total", "role")
        .0
        .into_iter()
        .filter(|(_, count)| count.truthy())
        .collect();
    let count = |name: &str| number(samples.one(name));
    halite_wire::map! {
        "master" => halite_wire::map! {
            "running" => true,
            "version" => samples.label("halite_build_info", "version").unwrap_or_default(),
            "since" => since.map(|t| t.to_string()).unwrap_or_default(),
        },
        "keys" => samples.by("halite_keys", "state"),
        "minions" => samples.by("halite_minions", "state"),
        "versions" => versions(samples),
        "gateways" => gateways(samples),
        "cluster" => figures_of(samples, "cluster", &["member", "leader", "keys", "waiting", "refused_total"]),
        "workers" => samples.by("halite_workers", "state"),
        "queues" => queues,
        "oldest_request" => number(samples.one("halite_request_oldest_seconds")),
        "dropped" => halite_wire::map! {
            "requests_refused" => count("halite_requests_refused_total"),
            "requests_late" => count("halite_requests_late_total"),
            "requests_replayed" => count("halite_requests_replayed_total"),
            "publications" => count("halite_publications_dropped_total"),
            "events" => count("halite_events_dropped_total"),
            "returner_events" => count("halite_returner_events_dropped_total"),
        },
        "jobs_waiting" => count("halite_jobs_waiting"),
        "restarts" => restarts,
    }
}

/// Figures of the gateways that run.
fn gateways(samples: &Samples) -> Map {
    let mut out = Map::new();
    for (gateway, figures) in [
        ("arena", &["up", "managers", "jobs"][..]),
        ("collective", &["up", "nodes", "connected", "jobs"]),
        ("sysinspect", &["connections", "sessions", "jobs"]),
    ] {
        let mut own = figures_of(samples, gateway, figures);
        if own.is_empty() {
            continue;
        }
        for figure in ["runtimes", "modules"] {
            let by_state = samples.by(&format!("halite_{gateway}_{figure}"), "state");
            if !by_state.is_empty() {
                own.set(figure, by_state);
            }
        }
        out.set(gateway, own);
    }
    out
}

/// Those of these figures that there are.
fn figures_of(samples: &Samples, of: &str, figures: &[&str]) -> Map {
    let mut own = Map::new();
    for figure in figures {
        let name = format!("halite_{of}_{figure}");
        if let Some(sample) = samples.named(&name).next() {
            own.set(*figure, number(sample.value));
        }
    }
    own
}

fn versions(samples: &Samples) -> Map {
    let mut map = samples.by("halite_minion_versions", "version");
    for (version, _) in &mut map.0 {
        if version.is_str("") {
            *version = "unknown".into();
        }
    }
    map
}

/// Whole numbers without a decimal point.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::Int(value as i64);
    }
    Value::Float(value)
}

/// Samples in the text format of Prometheus, as written by the role `Metrics`.
struct Samples(Vec<Sample>);

struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Samples {
    fn parse(text: &str) -> Samples {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Samples(lines.filter_map(sample).collect())
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |s| s.name == name)
    }

    /// The value of a sample without labels; 0 if missing.
    fn one(&self, name: &str) -> f64 {
        self.named(name).next().map_or(0.0, |s| s.value)
    }

    fn label(&self, name: &str, label: &str) -> Option<String> {
        let sample = self.named(name).next()?;
        Some(sample.label(label)?.to_owned())
    }

    /// Values by one label.
    fn by(&self, name: &str, label: &str) -> Map {
        let pair = |s: &Sample| Some((s.label(label)?.to_owned(), number(s.value)));
        self.named(name).filter_map(pair).collect()
    }
}

impl Sample {
    fn label(&self, label: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(name, _)| name == label);
        found.map(|(_, text)| text.as_str())
    }
}

/// Parses a line `name value` or `name{label="text",...} value`.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let name = line[..end].to_owned();
    let (labels, rest) = match line[end..].strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), &line[end..]),
    };
    let value = rest.trim().parse().ok()?;
    Some(Sample {
        name,
        labels,
        value,
    })
}

/// Parses labels up to the closing brace; returns the rest as well.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut out = Vec::new();
    loop {
        let (name, text) = rest.split_once("=\"")?;
        let (text, used) = quoted(text)?;
        out.push((name.to_owned(), text));
        rest = &rest[name.len() + 2 + used..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((out, rest.strip_prefix('}')?)),
        }
    }
}

/// Parses a text up to its closing quote; returns the number of bytes used as well.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read() {
        let samples = Samples::parse(
            "# HELP x y\nx 3\nhalite_keys{state=\"accepted\"} 7\n\
             q{a=\"1\\\"}, \\\\\",b=\"\\n\"} 0.5\nbroken{a=\"\n\nalso broken\n",
        );
        assert_eq!(samples.0.len(), 3);
        assert_eq!(samples.one("x"), 3.0);
        assert_eq!(
            samples.by("halite_keys", "state"),
            halite_wire::map! {"accepted" => 7}
        );
        assert_eq!(samples.label("q", "a").as_deref(), Some("1\"}, \\"));
        assert_eq!(samples.label("q", "b").as_deref(), Some("\n"));
        assert_eq!(number(0.5), Value::Float(0.5));
    }

    #[test]
    fn gateways_that_run_have_figures() {
        let samples = Samples::parse(
            "halite_sysinspect_connections 3\nhalite_sysinspect_sessions 2\nhalite_sysinspect_jobs 0\n\
             halite_arena_up 1\nhalite_arena_runtimes{state=\"alive\"} 5\n",
        );
        let found = gateways(&samples);
        let expected = halite_wire::map! {
            "arena" => halite_wire::map! {"up" => 1, "runtimes" => halite_wire::map! {"alive" => 5}},
            "sysinspect" => halite_wire::map! {"connections" => 3, "sessions" => 2, "jobs" => 0},
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_master_that_is_down_has_keys() {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"root_dir" => dir.path().to_string_lossy().as_ref()};
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let status = stopped_status(&config, "nobody answers").unwrap();
        let part = |name: &str| status.get(name).and_then(Value::as_map).unwrap().clone();
        assert_eq!(part("master").get("running"), Some(&false.into()));
        assert_eq!(part("keys").len(), 4);
    }
}
