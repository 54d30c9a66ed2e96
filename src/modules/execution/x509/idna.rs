//! Names of domains as in Python's `idna.encode`.

use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;

/// Longest label and longest name.
const LABEL: usize = 63;
const DOMAIN: usize = 253;

/// The form of a name on the wire.
///
/// # Errors
/// It is no name.
pub fn encode(name: &str) -> Result<String> {
    let fail = |text: &str| Err(CallError::Command(text.to_owned()));
    // Ideographic and other full stops separate labels, too.
    let mut labels: Vec<&str> = name
        .split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'])
        .collect();
    if labels == [""] {
        return fail("Empty domain");
    }
    let dot = labels.last() == Some(&"");
    if dot {
        labels.pop();
    }
    let mut all = Vec::new();
    for label in labels {
        if label.is_empty() {
            return fail("Empty Label");
        }
        let encoded = if label.is_ascii() {
            let low = label.to_lowercase();
            match low.strip_prefix("xn--") {
                Some("") => return fail("Malformed A-label, no Punycode eligible content found"),
                Some(rest) if rest.ends_with('-') => {
                    return fail("A-label must not end with a hyphen");
                }
                Some(_) => {}
                None => check(&low)?,
            }
            label.to_owned()
        } else {
            check(label)?;
            format!("xn--{}", punycode(label))
        };
        if encoded.len() > LABEL {
            return fail("Label too long");
        }
        all.push(encoded);
    }
    if dot {
        all.push(String::new());
    }
    let whole = all.join(".");
    if whole.len() > DOMAIN + usize::from(dot) {
        return fail("Domain too long");
    }
    Ok(whole)
}

/// Letters and digits of all scripts; the registry's finer distinctions are left to it.
fn check(label: &str) -> Result<()> {
    let chars: Vec<char> = label.chars().collect();
    if chars.get(2..4) == Some(&['-', '-']) {
        let text = "Label has disallowed hyphens in 3rd and 4th position";
        return Err(CallError::Command(text.to_owned()));
    }
    if label.starts_with('-') || label.ends_with('-') {
        let text = "Label must not start or end with a hyphen";
        return Err(CallError::Command(text.to_owned()));
    }
    for (at, c) in chars.iter().enumerate() {
        let good = if c.is_ascii() {
            c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-'
        } else {
            !c.is_uppercase() && !c.is_whitespace() && !c.is_control()
        };
        if !good {
            return Err(CallError::Command(format!(
                "Codepoint U+{:04X} at position {} of {} not allowed",
                u32::from(*c),
                at + 1,
                python::repr(&label.into())
            )));
        }
    }
    Ok(())
}

/// RFC 3492.
fn punycode(label: &str) -> String {
    const BASE: u32 = 36;
    const TMIN: u32 = 1;
    const TMAX: u32 = 26;
    let threshold = |k: u32, bias: u32| k.saturating_sub(bias).clamp(TMIN, TMAX);
    let digit = |d: u32| {
        char::from(if d < 26 {
            b'a' + d as u8
        } else {
            b'0' + (d - 26) as u8
        })
    };
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic = out.len() as u32;
    if basic > 0 {
        out.push('-');
    }
    let (mut n, mut delta, mut bias, mut done) = (128_u32, 0_u32, 72_u32, basic);
    let total = label.chars().count() as u32;
    while done < total {
        let Some(next) = label.chars().map(u32::from).filter(|c| *c >= n).min() else {
            break;
        };
        delta = delta.saturating_add((next - n).saturating_mul(done + 1));
        n = next;
        for c in label.chars().map(u32::from) {
            if c < n {
                delta = delta.saturating_add(1);
            }
            if c != n {
                continue;
            }
            let (mut q, mut k) = (delta, BASE);
            loop {
                let t = threshold(k, bias);
                if q < t {
                    break;
                }
                out.push(digit(t + (q - t) % (BASE - t)));
                q = (q - t) / (BASE - t);
                k += BASE;
            }
            out.push(digit(q));
            // The bias for the next character.
            delta = if done == basic {
                delta / 700
            } else {
                delta / 2
            };
            delta += delta / (done + 1);
            let mut steps = 0;
            while delta > (BASE - TMIN) * TMAX / 2 {
                delta /= BASE - TMIN;
                steps += BASE;
            }
            bias = steps + (BASE - TMIN + 1) * delta / (delta + 38);
            delta = 0;
            done += 1;
        }
        delta += 1;
        n += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_python() {
        for (name, want) in [
            ("salt.ca", "salt.ca"),
            ("A.b.", "A.b."),
            ("m\u{fc}nchen.de", "xn--mnchen-3ya.de"),
            ("b\u{fc}cher", "xn--bcher-kva"),
            ("\u{65e5}\u{672c}\u{8a9e}.jp", "xn--wgv71a119e.jp"),
        ] {
            assert_eq!(encode(name).unwrap(), want);
        }
        for (name, why) in [
            ("a_b", "Codepoint U+005F at position 2 of 'a_b' not allowed"),
            ("-a", "Label must not start or end with a hyphen"),
            ("a..b", "Empty Label"),
            ("", "Empty domain"),
            (
                "aa--b",
                "Label has disallowed hyphens in 3rd and 4th position",
            ),
            (
                "localhost:80",
                "Codepoint U+003A at position 10 of 'localhost:80' not allowed",
            ),
        ] {
            assert_eq!(encode(name).unwrap_err().message(), why);
        }
    }
}
