//! Lists of certificate names: `callers` and `privileged`.

use regex::Regex;
use std::fmt;

/// Largest compiled expression, in bytes.
const LARGEST: usize = 1 << 20;

/// Names, and regular expressions between slashes.
#[derive(Clone, Default)]
pub struct Names {
    plain: Vec<String>,
    patterns: Vec<Regex>,
}

impl Names {
    /// Parses a list. An expression may match anywhere in a name, as in Choria: write `/\.mcollective$/` for a
    /// suffix.
    ///
    /// # Errors
    /// An invalid expression: why.
    pub fn new<S: AsRef<str>>(list: &[S]) -> Result<Names, String> {
        let mut names = Names::default();
        for entry in list.iter().map(AsRef::as_ref) {
            let between = entry
                .strip_prefix('/')
                .and_then(|entry| entry.strip_suffix('/'));
            match between {
                Some("") => return Err("`//` would match every name".to_owned()),
                Some(pattern) => {
                    let built = regex::RegexBuilder::new(pattern)
                        .size_limit(LARGEST)
                        .build();
                    names
                        .patterns
                        .push(built.map_err(|error| format!("`{entry}`: {error}"))?);
                }
                None if entry.is_empty() => return Err("a name is empty".to_owned()),
                None => names.plain.push(entry.to_owned()),
            }
        }
        Ok(names)
    }

    /// Whether a name is in the list.
    pub fn has(&self, name: &str) -> bool {
        let plain = self.plain.iter().any(|plain| plain == name);
        plain || self.patterns.iter().any(|pattern| pattern.is_match(name))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let patterns = self.patterns.iter().map(|p| format!("/{p}/"));
        let all = self.plain.iter().cloned().chain(patterns);
        f.debug_list().entries(all).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_expressions() {
        let names = Names::new(&["alice", r"/\.mcollective$/"]).unwrap();
        for name in ["alice", "rip.mcollective", "a.b.mcollective"] {
            assert!(names.has(name), "{name}");
        }
        for name in [
            "alice2",
            "xalice",
            "rip.mcollective.evil",
            "mcollective",
            "",
        ] {
            assert!(!names.has(name), "{name}");
        }
        assert!(!Names::new::<&str>(&[]).unwrap().has("alice"));
        for bad in ["/(/", "//", "", "/(a{1000}){1000}/"] {
            assert!(Names::new(&[bad]).is_err(), "{bad}");
        }
        // A name that only looks like an expression is a name.
        assert!(Names::new(&["/a"]).unwrap().has("/a"));
    }
}
