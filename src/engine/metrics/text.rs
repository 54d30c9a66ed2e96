//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

/// Kind of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; starts again with its process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative counts per upper bound, their sum and their number; see [`Text::histogram`].
    Histogram,
}

/// A text being built.
#[derive(Default)]
pub struct Text {
    out: String,
    name: &'static str,
}

impl Text {
    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> &mut Text {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.name = name;
        self
    }

    /// Adds a sample to the current family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Text {
        self.suffixed("", labels, value)
    }

    /// Adds the samples of a histogram for one label: `counts` has the number of values up to each bound (and
    /// above the previous one), and at its end the number above the last.
    pub fn histogram(
        &mut self,
        (label, value): (&str, &str),
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) -> &mut Text {
        let names = bounds.iter().map(ToString::to_string);
        let mut total = 0;
        for (count, bound) in counts.iter().zip(names.chain(["+Inf".to_owned()])) {
            total += count;
            let labels = [(label, value), ("le", bound.as_str())];
            self.suffixed("_bucket", &labels, total as f64);
        }
        self.suffixed("_sum", &[(label, value)], sum);
        self.suffixed("_count", &[(label, value)], total as f64)
    }

    fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) -> &mut Text {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        for (n, (label, text)) in labels.iter().enumerate() {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let before = if n == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{before}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
        self
    }

    /// Adds a family of one sample without labels.
    pub fn one(&mut self, name: &'static str, kind: MetricKind, help: &str, value: f64) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let mut text = Text::default();
        text.family("x_seconds", MetricKind::Histogram, "a")
            .histogram(("c", "d"), &[0.5, 1.0], &[2, 0, 1], 4.5);
        let samples: Vec<&str> = text.out.lines().skip(1).collect();
        assert_eq!(
            samples,
            [
                "# TYPE x_seconds histogram",
                "x_seconds_bucket{c=\"d\",le=\"0.5\"} 2",
                "x_seconds_bucket{c=\"d\",le=\"1\"} 2",
                "x_seconds_bucket{c=\"d\",le=\"+Inf\"} 3",
                "x_seconds_sum{c=\"d\"} 4.5",
                "x_seconds_count{c=\"d\"} 3",
            ]
        );
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("x_total", MetricKind::Counter, "a\nb")
            .sample(&[], 3.0)
            .sample(&[("a", "q\"\\"), ("b", "")], 0.5);
        assert_eq!(
            text.finish(),
            "# HELP x_total a\\nb\n# TYPE x_total counter\nx_total 3\nx_total{a=\"q\\\"\\\\\",b=\"\"} 0.5\n"
        );
    }
}
