//! Python's `fnmatch`.

/// `fnmatch` with `*`, `?` and `[...]`.
pub fn glob(pattern: &str, name: &str) -> bool {
    let p: Vec<char> = pattern.chars().collect();
    let n: Vec<char> = name.chars().collect();
    glob_chars(&p, &n)
}

fn glob_chars(p: &[char], n: &[char]) -> bool {
    let (mut pi, mut ni) = (0, 0);
    // Where to resume after the last star: (pattern after it, name it may swallow next).
    let mut star: Option<(usize, usize)> = None;
    while ni < n.len() {
        if p.get(pi) == Some(&'*') {
            star = Some((pi + 1, ni));
            pi += 1;
            continue;
        }
        if let Some(width) = p.get(pi..).and_then(|rest| one(rest, n[ni])) {
            pi += width;
            ni += 1;
            continue;
        }
        let Some((after, from)) = star else {
            return false;
        };
        star = Some((after, from + 1));
        pi = after;
        ni = from + 1;
    }
    p[pi.min(p.len())..].iter().all(|&c| c == '*')
}

/// How many pattern characters match this one character, if they do.
fn one(p: &[char], c: char) -> Option<usize> {
    match p.first()? {
        '?' => Some(1),
        '[' => {
            let Some(end) = p.iter().skip(2).position(|&x| x == ']').map(|i| i + 2) else {
                return (c == '[').then_some(1);
            };
            let (negated, set) = match &p[1..end] {
                ['!', rest @ ..] => (true, rest),
                set => (false, set),
            };
            (in_set(set, c) != negated).then_some(end + 1)
        }
        &x => (x == c).then_some(1),
    }
}

fn in_set(set: &[char], c: char) -> bool {
    match set {
        [] => false,
        [lo, '-', hi, rest @ ..] => (*lo..=*hi).contains(&c) || in_set(rest, c),
        [x, rest @ ..] => *x == c || in_set(rest, c),
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs_as_fnmatch() {
        for (pattern, name, hit) in [
            ("test.p*", "test.ping", true),
            ("*", "", true),
            ("*.ping", "test.ping", true),
            ("t?st.*g", "test.ping", true),
            ("[st]est.*", "test.ping", true),
            ("[!s]est.*", "sest.ping", false),
            ("[a-c]x", "bx", true),
            ("test", "test.ping", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ] {
            assert_eq!(glob(pattern, name), hit, "{pattern} {name}");
        }
    }
}
