//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

/// Kind of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; begins anew with its process.
    Counter,
    /// Comes and goes.
    Gauge,
}

/// A text in the making.
#[derive(Default)]
pub struct Text {
    out: String,
    name: &'static str,
}

impl Text {
    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> &mut Text {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.name = name;
        self
    }

    /// A sample of the family that was begun last.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Text {
        self.out.push_str(self.name);
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

    /// A family of one sample without labels.
    pub fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The whole.
    pub fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("x_total", Kind::Counter, "a\nb")
            .sample(&[], 3.0)
            .sample(&[("a", "q\"\\"), ("b", "")], 0.5);
        assert_eq!(
            text.finish(),
            "# HELP x_total a\\nb\n# TYPE x_total counter\nx_total 3\nx_total{a=\"q\\\"\\\\\",b=\"\"} 0.5\n"
        );
    }
}
