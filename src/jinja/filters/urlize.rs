//! `urlize`: links in text (`jinja2/utils.py urlize`).

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::escape;
use super::super::value::{Args, Obj, quote};
use super::markup::escaped;
use super::{FilterFn, flag, text_of};
use regex::Regex;
use std::sync::LazyLock;

pub(super) const TABLE: &[(&str, FilterFn)] = &[("urlize", urlize)];

static HTTP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)^ (?:
            (?:https?://|www\.) (?:(?:[\w%-]+\.)+)? (?:[a-z]{2,63}|xn--[\w%]{2,59})
          | (?:[\w%-]{2,63}\.)+ (?:com|net|int|edu|gov|org|info|mil)
          | https?:// (?: (?:\d{1,3})(?:\.\d{1,3}){3}
                        | \[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\] )
          ) (?: :\d{1,5})? (?:[/?\#]\S*)? $",
    )
    .ok()
});
static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\S+@\w[\w.-]*\.\w+$").ok());
static SCHEME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:[\w.+-]{2,}:/{0,2})$").ok());

fn is(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|regex| regex.is_match(text))
}

struct Linker {
    limit: Option<usize>,
    attributes: String,
    schemes: Vec<String>,
}

fn urlize(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = [
        "trim_url_limit",
        "nofollow",
        "target",
        "rel",
        "extra_schemes",
    ];
    let bound = args.bind("do_urlize", &names)?;
    let given = |n: usize| bound[n].clone().filter(|value| !value.is_none());
    let limit = given(0).and_then(|limit| limit.as_int());
    let rel = given(3);
    let mut rel: Vec<&str> = match &rel {
        Some(rel) => text_of(rel)?.split_whitespace().collect(),
        None => Vec::new(),
    };
    rel.push("noopener");
    if flag(&bound[1], false)? {
        rel.push("nofollow");
    }
    rel.sort_unstable();
    rel.dedup();
    let mut attributes = format!(" rel=\"{}\"", escape(&rel.join(" ")));
    if let Some(target) = given(2) {
        attributes.push_str(&format!(" target=\"{}\"", escaped(&target)?));
    }
    let mut schemes = Vec::new();
    if let Some(list) = given(4) {
        for scheme in cx.iterate(&list)? {
            let scheme = text_of(&scheme)?.to_owned();
            if !is(&SCHEME, &scheme) {
                return Err(Error::filter_argument(format!(
                    "{} is not a valid URI scheme prefix.",
                    quote(&scheme)
                )));
            }
            schemes.push(scheme);
        }
    }
    let linker = Linker {
        limit: limit.map(|limit| usize::try_from(limit).unwrap_or(0)),
        attributes,
        schemes,
    };
    let text = escaped(value)?;
    cx.charge(text.len() / 10)?;
    let mut out = String::new();
    let mut rest: &str = &text;
    while !rest.is_empty() {
        let space = rest.starts_with(char::is_whitespace);
        let end = rest.find(|c: char| c.is_whitespace() != space);
        let (word, more) = rest.split_at(end.unwrap_or(rest.len()));
        if space {
            out.push_str(word)
        } else {
            out.push_str(&linker.word(word))
        }
        rest = more;
    }
    cx.check_size(out.len())?;
    Ok(if cx.autoescape() {
        Obj::Markup(out.into())
    } else {
        out.into()
    })
}

impl Linker {
    fn word(&self, word: &str) -> String {
        let (head, mut middle, mut tail) = parts(word);
        for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
            let opened = middle.matches(open).count();
            if opened <= middle.matches(close).count() {
                continue;
            }
            // A closing bracket that matches one in the address belongs to the address.
            for _ in 0..opened.min(tail.matches(close).count()) {
                let end = tail.find(close).map_or(0, |at| at + close.len());
                middle.push_str(&tail[..end]);
                tail = tail[end..].to_owned();
            }
        }
        format!("{head}{}{tail}", self.link(&middle))
    }

    fn link(&self, middle: &str) -> String {
        let attributes = &self.attributes;
        if is(&HTTP, middle) {
            let known = middle.starts_with("https://") || middle.starts_with("http://");
            let scheme = if known { "" } else { "https://" };
            let shown = self.shown(middle);
            return format!("<a href=\"{scheme}{middle}\"{attributes}>{shown}</a>");
        }
        if let Some(address) = middle.strip_prefix("mailto:").filter(|a| is(&EMAIL, a)) {
            return format!("<a href=\"{middle}\">{address}</a>");
        }
        let address = middle.contains('@')
            && !middle.starts_with("www.")
            && !middle.starts_with('@')
            && !middle.contains(':');
        if address && is(&EMAIL, middle) {
            return format!("<a href=\"mailto:{middle}\">{middle}</a>");
        }
        let mut out = middle.to_owned();
        for scheme in &self.schemes {
            if out != *scheme && out.starts_with(scheme.as_str()) {
                out = format!("<a href=\"{out}\"{attributes}>{out}</a>");
            }
        }
        out
    }

    fn shown(&self, url: &str) -> String {
        match self.limit {
            Some(limit) if url.chars().count() > limit => {
                let start: String = url.chars().take(limit).collect();
                format!("{start}...")
            }
            _ => url.to_owned(),
        }
    }
}

/// Opening brackets, the word, and trailing punctuation.
fn parts(word: &str) -> (&str, String, String) {
    let mut start = word;
    while let Some(rest) = ["(", "<", "&lt;"]
        .iter()
        .find_map(|open| start.strip_prefix(open))
    {
        start = rest;
    }
    let head = &word[..word.len() - start.len()];
    let mut middle = start;
    let marks = [")", ">", ".", ",", "&gt;"];
    while let Some(rest) = marks.iter().find_map(|mark| middle.strip_suffix(mark)) {
        middle = rest;
    }
    (head, middle.to_owned(), start[middle.len()..].to_owned())
}
