//! `re.sub`, `re.escape` and searches that return positions.

use super::PyRegex;

/// One part of a template.
enum TemplatePart {
    Text(String),
    Group(usize),
}

/// A replacement template: `\1`, `\g<name>`, and escapes for control characters.
pub struct RegexTemplate(Vec<TemplatePart>);

/// Result of a replacement.
pub struct RegexReplaced {
    /// The new text.
    pub text: String,
    /// Number of matches replaced.
    pub count: usize,
}

impl PyRegex {
    /// `re.subn`: replaces the first `limit` matches; 0 means all. `watch` is called for each match with the length of
    /// the new text so far, and may stop the replacement.
    ///
    /// # Errors
    /// Any error of `watch`.
    pub fn replace<E>(
        &self,
        text: &str,
        template: &RegexTemplate,
        limit: usize,
        mut watch: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<RegexReplaced, E> {
        self.replace_by(
            text,
            template,
            limit,
            &mut watch,
            |at, _| Ok(self.captures(text, at)),
            |length, watch| watch(length),
        )
    }

    /// The same with what finds the next match, and what watches the new text; both get `state`.
    pub(super) fn replace_by<S, E>(
        &self,
        text: &str,
        template: &RegexTemplate,
        limit: usize,
        state: &mut S,
        find: impl Fn(usize, &mut S) -> Result<Option<Vec<Option<(usize, usize)>>>, E>,
        watch: impl Fn(usize, &mut S) -> Result<(), E>,
    ) -> Result<RegexReplaced, E> {
        let mut out = String::new();
        let (mut at, mut copied, mut count) = (0, 0, 0);
        while at <= text.len() && (limit == 0 || count < limit) {
            let Some(found) = find(at, state)? else {
                break;
            };
            let Some((start, end)) = found[0] else { break };
            out.push_str(&text[copied..start]);
            template.expand(text, &found, &mut out);
            count += 1;
            watch(out.len(), state)?;
            copied = end;
            at = if end > start {
                end
            } else {
                // After an empty match, skip one character.
                let step = text[end..].chars().next().map_or(1, char::len_utf8);
                if let Some(passed) = text.get(end..end + step) {
                    out.push_str(passed);
                    copied = end + step;
                }
                end + step
            };
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Ok(RegexReplaced { text: out, count })
    }

    /// `re.search(...) is not None`.
    pub fn found_in(&self, text: &str) -> bool {
        self.captures(text, 0).is_some()
    }
}

/// `re.escape`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\x0b\x0c".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl RegexTemplate {
    fn expand(&self, text: &str, found: &[Option<(usize, usize)>], out: &mut String) {
        for piece in &self.0 {
            match piece {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Group(n) => {
                    if let Some(Some((start, end))) = found.get(*n) {
                        out.push_str(&text[*start..*end]);
                    }
                }
            }
        }
    }

    /// Parses a template for a pattern.
    ///
    /// # Errors
    /// The reason why Python refuses it.
    pub fn new(template: &str, regex: &PyRegex) -> Result<RegexTemplate, String> {
        let fail = |why: String| Err(why);
        let mut parts = Vec::new();
        let mut text = String::new();
        let chars: Vec<char> = template.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            at += 1;
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some(&kind) = chars.get(at) else {
                return fail(format!(
                    "bad escape (end of pattern) at position {}",
                    at - 1
                ));
            };
            at += 1;
            let group = match kind {
                'g' => {
                    let end = chars[at..].iter().position(|c| *c == '>').map(|n| at + n);
                    let Some(end) = end.filter(|_| chars.get(at) == Some(&'<')) else {
                        return fail(format!("missing < at position {at}"));
                    };
                    let name: String = chars[at + 1..end].iter().collect();
                    let number = match name.parse() {
                        Ok(number) => Some(number),
                        Err(_) => regex.group(&name),
                    };
                    let Some(number) = number else {
                        return fail(format!("unknown group name '{name}'"));
                    };
                    at = end + 1;
                    number
                }
                '0' => {
                    let digits: String = chars[at..]
                        .iter()
                        .take(2)
                        .take_while(|c| c.is_digit(8))
                        .collect();
                    at += digits.len();
                    let code = u32::from_str_radix(&format!("0{digits}"), 8).unwrap_or(0);
                    text.extend(char::from_u32(code));
                    continue;
                }
                '1'..='9' => {
                    let mut digits = kind.to_string();
                    if let Some(next) = chars.get(at).filter(|c| c.is_ascii_digit()) {
                        digits.push(*next);
                        at += 1;
                    }
                    // Three octal digits are a character code.
                    let third = chars.get(at).filter(|c| c.is_digit(8));
                    if let Some(third) = third
                        && digits.len() == 2
                        && digits.chars().all(|c| c.is_digit(8))
                    {
                        digits.push(*third);
                        at += 1;
                        let code = u32::from_str_radix(&digits, 8).unwrap_or(u32::MAX);
                        match char::from_u32(code).filter(|_| code <= 0o377) {
                            Some(c) => text.push(c),
                            None => {
                                return fail(format!(
                                    "octal escape value \\{digits} outside of range 0-0o377 at position {}",
                                    at - 4
                                ));
                            }
                        }
                        continue;
                    }
                    digits.parse().unwrap_or(usize::MAX)
                }
                other => {
                    match other {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'a' => text.push('\x07'),
                        'b' => text.push('\x08'),
                        'f' => text.push('\x0c'),
                        'v' => text.push('\x0b'),
                        '\\' => text.push('\\'),
                        other if other.is_ascii_alphabetic() => {
                            return fail(format!("bad escape \\{other} at position {}", at - 2));
                        }
                        other => text.extend(['\\', other]),
                    }
                    continue;
                }
            };
            if group >= regex.groups() {
                return fail(format!(
                    "invalid group reference {group} at position {}",
                    at.saturating_sub(1)
                ));
            }
            parts.push(TemplatePart::Text(std::mem::take(&mut text)));
            parts.push(TemplatePart::Group(group));
        }
        parts.push(TemplatePart::Text(text));
        Ok(RegexTemplate(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegexFlags;

    fn sub(pattern: &str, template: &str, text: &str, limit: usize) -> Result<String, String> {
        let mode = RegexFlags {
            exact: true,
            ..RegexFlags::default()
        };
        let regex = PyRegex::with_flags(pattern, mode)?;
        let template = RegexTemplate::new(template, &regex)?;
        let done = regex.replace(text, &template, limit, |_| Ok::<(), String>(()))?;
        Ok(done.text)
    }

    #[test]
    fn as_re_sub() {
        let same = |pattern, template, text, limit, wanted: &str| {
            assert_eq!(sub(pattern, template, text, limit).as_deref(), Ok(wanted));
        };
        same("(b)(?P<x>c)", "\\2\\g<x>\\g<1>\\n", "abcd", 0, "accb\nd");
        same("b", "\\101\\0\\-", "abc", 0, "aA\0\\-c");
        same("x*", "-", "axb", 0, "-a--b-");
        same("x*", "-", "axb", 2, "-a-b");
        assert!(sub("b", "\\1", "b", 0).is_err());
        assert!(sub("b", "\\777", "b", 0).is_err());
        assert!(sub("b", "\\q", "b", 0).is_err());
        assert_eq!(escape("a.b c"), "a\\.b\\ c");
    }
}
