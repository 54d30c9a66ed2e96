//! Version order of `LooseVersion` in `salt/utils/versions.py`.

use std::cmp::Ordering;

/// Digits, or anything else.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Number(String),
    Text(String),
}

impl Part {
    /// Numbers zero-padded to eight digits, to compare with words.
    fn text(&self) -> String {
        match self {
            Part::Number(digits) => format!("{digits:0>8}"),
            Part::Text(text) => text.clone(),
        }
    }
}

/// Splits into digits, lower-case letters and the rest, without dots.
fn parts(version: &str) -> Vec<Part> {
    let kind = |c: char| match c {
        '0'..='9' => 0,
        'a'..='z' => 1,
        '.' => 2,
        _ => 3,
    };
    let mut runs: Vec<(u8, String)> = Vec::new();
    for c in version.chars() {
        match runs.last_mut() {
            Some((last, run)) if *last == kind(c) => run.push(c),
            _ => runs.push((kind(c), c.to_string())),
        }
    }
    let part = |(kind, run): (u8, String)| match kind {
        0 => {
            let digits = run.trim_start_matches('0');
            Some(Part::Number(
                if digits.is_empty() { "0" } else { digits }.to_owned(),
            ))
        }
        2 => None,
        _ => Some(Part::Text(run)),
    };
    runs.into_iter().filter_map(part).collect()
}

/// Compares two versions.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (one, other) = (parts(one), parts(other));
    let is_text = |p: &Part| matches!(p, Part::Text(_));
    if one.iter().chain(&other).any(is_text) {
        let texts = |parts: &[Part]| parts.iter().map(Part::text).collect::<Vec<_>>();
        return texts(&one).cmp(&texts(&other));
    }
    let numbers = |parts: &[Part]| {
        let text = parts.iter().map(Part::text);
        text.map(|t| t.trim_start_matches('0').to_owned())
            .map(|t| (t.len(), t))
            .collect::<Vec<_>>()
    };
    numbers(&one).cmp(&numbers(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_stock_does() {
        use Ordering::*;
        for (one, other, order) in [
            ("1.10", "1.9", Greater),
            ("1.0", "1.0", Equal),
            ("1.0", "1.0.1", Less),
            ("1.0-2", "1.0-10", Less),
            ("1.0~rc1-1", "1.0-1", Greater),
            ("1.0a", "1.0", Greater),
            ("2.0", "10.0", Less),
            ("01.1", "1.01", Equal),
            ("a", "1", Greater),
        ] {
            assert_eq!(compare(one, other), order, "{one} {other}");
        }
    }
}
