//! Output as tables and as JSON.

use super::finding::{Finding, Report, Verdict};
use crate::output::want_color;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

/// Whether standard output supports colours.
pub(super) fn colours() -> bool {
    let no_color = std::env::var("NO_COLOR").ok();
    let tty = std::io::stdout().is_terminal();
    want_color(false, false, None, tty, no_color.as_deref())
}

fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Supported => "\x1b[32m",
        Verdict::Different => "\x1b[36m",
        Verdict::Ignored => "\x1b[90m",
        Verdict::Unknown => "\x1b[33m",
        Verdict::NeedsAction => "\x1b[1;31m",
    }
}

/// A report by file and line; `short` omits what is supported.
pub(super) fn table(report: &Report, short: bool, colours: bool) -> String {
    let mut out = String::new();
    let shown: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|f| !(short && f.verdict == Verdict::Supported))
        .collect();
    let width = shown.iter().map(|f| f.what.chars().count()).max();
    let width = width.unwrap_or(0).min(28);
    let mut files: Vec<&Path> = Vec::new();
    for finding in &shown {
        if !files.contains(&finding.file.as_path()) {
            files.push(&finding.file);
        }
    }
    for file in files {
        let _ = writeln!(out, "{}", file.display());
        let mut lines: Vec<&&Finding> = shown.iter().filter(|f| f.file == file).collect();
        lines.sort_by_key(|f| f.line);
        for finding in lines {
            out.push_str(&row(finding, width, colours));
        }
    }
    if !shown.is_empty() {
        out.push('\n');
    }
    for text in &report.unreadable {
        let _ = writeln!(out, "cannot be read: {text}");
    }
    let counts = Verdict::ALL.map(|v| format!("{} {}", report.count(v), v.word()));
    let _ = writeln!(out, "{}", counts.join(", "));
    let sentence = report.sentence();
    if colours && report.status() != 0 {
        let _ = writeln!(out, "{}{sentence}\x1b[0m", colour(Verdict::NeedsAction));
    } else {
        let _ = writeln!(out, "{sentence}");
    }
    out
}

fn row(finding: &Finding, width: usize, colours: bool) -> String {
    let line = match finding.line {
        0 => String::new(),
        n => n.to_string(),
    };
    let word = finding.verdict.word();
    let (on, off) = if colours {
        (colour(finding.verdict), "\x1b[0m")
    } else {
        ("", "")
    };
    let text = format!(
        "{line:>6}  {on}{word:<12}{off}  {:<width$}  {}",
        finding.what, finding.note
    );
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_by_file_and_line() {
        let finding = |verdict, file: &str, line, what: &str| {
            Finding::about(verdict, Path::new(file), what, "why".into()).at(line)
        };
        let mut report = Report {
            findings: vec![
                finding(Verdict::NeedsAction, "/b", 12, "engines"),
                finding(Verdict::Supported, "/a", 1, "user"),
                finding(Verdict::Different, "/b", 0, "id"),
            ],
            unreadable: Vec::new(),
        };
        let text = table(&report, true, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "/b",
                "        different     id       why",
                "    12  needs a hand  engines  why"
            ]
        );
        assert!(text.contains("1 supported, 1 different, 0 ignored, 0 unknown, 1 needs a hand"));
        assert!(!text.contains('\x1b') && !text.contains("/a"));
        assert!(table(&report, false, true).contains("\x1b[1;31mneeds a hand\x1b[0m"));
        assert_eq!(report.status(), 1);
        report.unreadable.push("/c".into());
        assert_eq!(report.status(), 2);
        assert!(table(&report, true, false).contains("cannot be read: /c\n"));
    }
}
