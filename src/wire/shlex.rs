//! Splits and quotes command lines like Python's `shlex.split` and `shlex.quote`.

/// Splits a command line by the rules of a POSIX shell, without expansions.
///
/// # Errors
/// The text of Python's `ValueError`.
pub fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => single(&mut chars, word.get_or_insert_default())?,
            '"' => double(&mut chars, word.get_or_insert_default())?,
            '\\' => word
                .get_or_insert_default()
                .push(chars.next().ok_or("No escaped character")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    loop {
        match chars.next().ok_or("No closing quotation")? {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
}

/// Inside double quotes a backslash only escapes itself and the quote.
fn double(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    loop {
        match chars.next().ok_or("No closing quotation")? {
            '"' => return Ok(()),
            '\\' => {
                let next = chars.next().ok_or("No escaped character")?;
                if !matches!(next, '"' | '\\') {
                    word.push('\\');
                }
                word.push(next);
            }
            c => word.push(c),
        }
    }
}

/// Quotes a word for a POSIX shell (`shlex.quote`).
pub fn quote(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\"'\"'"))
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn splits_as_python() {
        for (line, words) in [
            ("echo 'a b' c;d", vec!["echo", "a b", "c;d"]),
            (
                r#"a\ b "c\"d" "e\f" '\g'"#,
                vec!["a b", "c\"d", "e\\f", "\\g"],
            ),
            ("'' x''y  \t\n z", vec!["", "xy", "z"]),
            ("", vec![]),
            ("a #b", vec!["a", "#b"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert_eq!(split("echo 'a"), Err("No closing quotation"));
        assert_eq!(split("echo \\"), Err("No escaped character"));
    }
}
