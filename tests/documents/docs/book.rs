//! The pages of the book hang together: what names a page, a place in one or a sample finds it.

use super::{read, top};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

const SUMMARY: &str = "docs/SUMMARY.md";
const HINT: &str = "HALITE_BLESS=1 cargo test --test documents";

/// Documents outside of the book whose links are looked at as well.
const OTHERS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "ipc/README.md",
];

/// All Markdown files below docs/, from the top of the tree.
fn pages() -> BTreeSet<String> {
    fn look(dir: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(top().join(dir)).unwrap().flatten() {
            let name = format!("{dir}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                look(&name, found);
            } else if name.ends_with(".md") {
                found.insert(name);
            }
        }
    }
    let mut found = BTreeSet::new();
    look("docs", &mut found);
    found
}

/// The text without blocks of code and with nothing between backticks.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            // What stands at odd places is code.
            let parts: Vec<&str> = line.split('`').step_by(2).collect();
            out.push_str(&parts.join(" "));
            out.push('\n');
        }
    }
    out
}

/// Where links lead, as they are written: the piece before and behind `#`.
fn links(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in prose(text).split("](").skip(1) {
        let Some((target, _)) = part.split_once(')') else {
            continue;
        };
        if target.contains("://") {
            continue;
        }
        let (file, place) = target.split_once('#').unwrap_or((target, ""));
        found.push((file.to_owned(), place.to_owned()));
    }
    found
}

/// `docs/x.md` and `../y.md` give `y.md`; `None` where it leads out of the tree.
fn joined(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            part => path.push(part),
        }
    }
    Some(path.to_string_lossy().into_owned())
}

/// Names by which headings can be reached, made as mdBook and the usual hosts of repositories do.
fn places(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let head = line.trim_start_matches('#');
        if fenced || head.len() == line.len() || !head.starts_with(' ') {
            continue;
        }
        let name: String = head
            .trim()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        let times: &mut usize = seen.entry(name.clone()).or_default();
        found.insert(match *times {
            0 => name,
            n => format!("{name}-{n}"),
        });
        *times += 1;
    }
    found
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read(SUMMARY);
    let mut missing = pages();
    assert!(missing.remove(SUMMARY) && missing.len() > 20);
    let mut wrong = Vec::new();
    for (link, _) in links(&summary) {
        let page = joined(SUMMARY, &link).unwrap_or_default();
        if !missing.remove(&page) {
            wrong.push(format!("{link} is no page, or stands there twice"));
        }
    }
    wrong.extend(missing.iter().map(|p| format!("{p} is not in it")));
    assert!(wrong.is_empty(), "{SUMMARY}: {}", wrong.join("; "));
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut dead = Vec::new();
    let mut count = 0;
    for name in pages.iter().map(String::as_str).chain(OTHERS) {
        for (file, place) in links(&read(name)) {
            count += 1;
            let shown = format!("{name}: {file}#{place}");
            let Some(target) = joined(name, &file).filter(|t| top().join(t).exists()) else {
                dead.push(shown);
                continue;
            };
            // In the book there is nothing outside of it.
            if name.starts_with("docs/") && !target.starts_with("docs/") {
                dead.push(format!(
                    "{shown}: leads out of the book, name the file instead"
                ));
            }
            if !place.is_empty() && !places(&read(&target)).contains(&place) {
                dead.push(format!("{shown}: no such heading"));
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(dead.is_empty(), "dead links:\n  {}", dead.join("\n  "));
}

/// Who opens a page learns from its first sentence what it is for.
#[test]
fn every_page_begins_with_a_title_and_a_sentence() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().filter(|p| p != SUMMARY) {
        let text = read(&page);
        let mut lines = text
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with("<!--"));
        let titled = lines.next().is_some_and(|l| l.starts_with("# "));
        let said = lines
            .next()
            .is_some_and(|l| l.starts_with(|c: char| c.is_alphabetic() || c == '`' || c == '['));
        if !titled || !said {
            wrong.push(page);
        }
    }
    assert!(wrong.is_empty(), "no title or no sentence: {wrong:?}");
}

/// `<!-- path -->` before a block of code: the block is that file, which a test runs.
#[test]
fn samples_in_pages_are_the_files() {
    let bless = std::env::var_os("HALITE_BLESS").is_some_and(|v| !v.is_empty());
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        let mut fresh = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(" -->\n```") {
            let file = before.rsplit("<!-- ").next().unwrap_or_default();
            let sample = read(&joined(&page, file).unwrap());
            let (language, block) = after.split_once('\n').unwrap();
            let (_, behind) = match block.strip_prefix("```") {
                Some(behind) => ("", behind),
                None => block.split_once("\n```").unwrap(),
            };
            fresh.push_str(&format!(
                "{before} -->\n```{language}\n{}\n```",
                sample.trim_end()
            ));
            rest = behind;
            count += 1;
        }
        fresh.push_str(rest);
        if bless && fresh != text {
            std::fs::write(top().join(&page), &fresh).unwrap();
        }
        assert!(
            bless || fresh == text,
            "{page} shows other samples than there are: {HINT}"
        );
    }
    assert!(count >= 4, "only {count} samples were found");
}

/// Texts of the program: string literals of all sources, with what stands for values cut out.
fn texts_of_the_program() -> String {
    let mut files = Vec::new();
    super::rust_files(top().join("src"), &mut files);
    super::rust_files(top().join("ipc/src"), &mut files);
    let mut all = String::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            // A literal that goes on in the next line.
            match line.strip_suffix('\\') {
                Some(begin) => all.push_str(begin.trim_start()),
                None => {
                    all.push_str(line.trim_start());
                    all.push('\n');
                }
            }
        }
    }
    all.replace("\\\"", "\"")
}

/// Who searches the page for what a program has said finds it: the messages there are its own.
#[test]
fn messages_of_the_troubleshooting_page_are_the_programs() {
    let page = read("docs/troubleshooting.md");
    let program = texts_of_the_program();
    let mut unknown = Vec::new();
    let mut count = 0;
    for row in page.lines().filter(|l| l.starts_with("| ")) {
        let cell = row.trim_start_matches("| ").split(" | ").next().unwrap();
        for message in super::quoted(cell) {
            for part in message.split("...") {
                let part = part.trim();
                if part.len() < 6 {
                    continue;
                }
                count += 1;
                if !program.contains(part) {
                    unknown.push(part.to_owned());
                }
            }
        }
    }
    assert!(count > 70, "only {count} messages were found");
    assert!(
        unknown.is_empty(),
        "no program says so:\n  {}",
        unknown.join("\n  ")
    );
}
