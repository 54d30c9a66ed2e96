//! The output of rabbitmqctl without its headings.

/// Whether a line is neither a heading nor a warning.
fn is_output(line: &str) -> bool {
    let heading = line.starts_with("Listing") && (line.ends_with("...") || !line.contains('\t'));
    !(heading || line.contains("...done") || line.starts_with("WARNING:") || line.is_empty())
}

/// The lines of a list.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| is_output(line))
}

/// The words of a list.
pub fn words(text: &str) -> Vec<String> {
    let all = lines(text).flat_map(str::split_whitespace);
    all.map(str::to_owned).collect()
}
