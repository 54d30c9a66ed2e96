//! `file_ignore_regex` and `file_ignore_glob` (`salt/fileserver/__init__.py is_file_ignored`).

use halite_target::{Glob, PyRegex};

/// Files that the file server neither lists nor serves.
pub struct Ignore {
    regexes: Vec<PyRegex>,
    globs: Vec<Glob>,
}

impl Ignore {
    /// Compiles the two options. Invalid expressions are logged and skipped, as in Salt.
    pub fn new(regexes: &[String], globs: &[String]) -> Ignore {
        let compiled = regexes.iter().filter_map(|pattern| {
            PyRegex::new(&anywhere(pattern))
                .inspect_err(|e| log::warn!("file_ignore_regex: {pattern:?} is skipped: {e}"))
                .ok()
        });
        Ignore {
            regexes: compiled.collect(),
            globs: globs.iter().map(|glob| Glob::new(glob)).collect(),
        }
    }

    /// Whether `name` is ignored. As in Salt, `name` is the full path when a file is requested, and the
    /// path below the root when files are listed.
    pub fn ignores(&self, name: &str) -> bool {
        self.regexes.iter().any(|r| r.matches(name) != Ok(false))
            || self.globs.iter().any(|g| g.matches(name))
    }
}

/// Turns an expression for `re.search` into one for `re.match`; leading flags stay in front.
fn anywhere(pattern: &str) -> String {
    let flags = pattern.strip_prefix("(?").and_then(|rest| {
        let end = rest.find(|c: char| !"aiLmsux".contains(c))?;
        (end > 0 && rest[end..].starts_with(')')).then_some(end + 3)
    });
    let (flags, rest) = pattern.split_at(flags.unwrap_or(0));
    format!("{flags}(?s:.*?)(?:{rest})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_anywhere_and_globs_whole() {
        let texts = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let ignore = Ignore::new(
            &texts(&[r"/\.svn($|/)", r"(?i)\.BAK$", "^only", "(", "a|bb"]),
            &texts(&["*.pyc", "*/folder/*"]),
        );
        for yes in [
            "x/.svn",
            "x/.svn/y",
            "x.bak",
            "only/this",
            "x/y.pyc",
            "x/folder/z",
            "xbby",
        ] {
            assert!(ignore.ignores(yes), "{yes}");
        }
        for no in ["x/.svnx", "not/only", "x.pyco", "folder/x", "b"] {
            assert!(!ignore.ignores(no), "{no}");
        }
    }
}
