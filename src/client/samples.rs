//! What the master tells of itself, read from its metrics.

use halite_wire::{Map, Value};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Far more than the figures of any fleet need, in bytes.
const MOST: u64 = 16 << 20;

/// Whole numbers without a decimal point.
pub fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::Int(value as i64);
    }
    Value::Float(value)
}

/// Samples in the text format of Prometheus, as written by the role `Metrics`.
pub struct Samples(Vec<Sample>);

/// One of them.
pub struct Sample {
    /// Name of its family.
    pub name: String,
    labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

impl Samples {
    /// Those of the master whose socket this is.
    ///
    /// # Errors
    /// The master does not run, or does not answer.
    pub fn read(path: &Path) -> io::Result<Samples> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut text = String::new();
        stream.take(MOST).read_to_string(&mut text)?;
        Ok(Samples::parse(&text))
    }

    /// All samples whose name begins with this.
    pub fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |s| s.name.starts_with(prefix))
    }

    /// Those of these figures of a part of the master that there are.
    pub fn figures(&self, of: &str, figures: &[&str]) -> Map {
        let mut own = Map::new();
        for figure in figures {
            let name = format!("halite_{of}_{figure}");
            if let Some(sample) = self.named(&name).next() {
                own.set(*figure, number(sample.value));
            }
        }
        own
    }

    /// From the text.
    pub fn parse(text: &str) -> Samples {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Samples(lines.filter_map(sample).collect())
    }

    /// Samples of a family.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |s| s.name == name)
    }

    /// The value of a sample without labels; 0 if missing.
    pub fn one(&self, name: &str) -> f64 {
        self.named(name).next().map_or(0.0, |s| s.value)
    }

    /// A label of the first sample of a family.
    pub fn label(&self, name: &str, label: &str) -> Option<String> {
        let sample = self.named(name).next()?;
        Some(sample.label(label)?.to_owned())
    }

    /// Values by one label.
    pub fn by(&self, name: &str, label: &str) -> Map {
        let pair = |s: &Sample| Some((s.label(label)?.to_owned(), number(s.value)));
        self.named(name).filter_map(pair).collect()
    }
}

impl Sample {
    /// One of its labels.
    pub fn label(&self, label: &str) -> Option<&str> {
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
}
