use super::*;
use proptest::prelude::*;

fn found(pattern: &str, text: &str) -> Option<bool> {
    let regex = RubyRegex::new(pattern, 0).ok()?;
    regex.is_match(text).ok()
}

#[test]
fn as_ruby_reads_them() {
    for (pattern, text, expected) in [
        ("^b$", "a\nb\nc", true),
        (r"\Ab", "a\nb", false),
        ("a.b", "a\nb", false),
        ("(?m)a.b", "a\nb", true),
        (r"\w", "é", false),
        ("[[:alpha:]]", "é", true),
        ("[[:^alpha:]]", "é", false),
        (r"\<a", "<a", true),
        (r"\/x", "/x", true),
        ("a{", "a{", true),
        ("^a{,2}$", "aaa", false),
        ("^a{,2}$", "aa", true),
        ("a{x}", "a{x}", true),
        ("^a{2}{3}$", "aaaaaa", true),
        ("^a{1}+$", "aaa", true),
        ("^a{2}?$", "", true),
        ("a++a", "aaa", false),
        ("^a**$", "aaa", true),
        (r"(a)(b)\2\1", "abba", true),
        ("(?(1)a)(b)", "ab", true),
        ("(?(1)a)(b)", "ac", false),
        ("^(a)?(?(1)b|c)$", "ab", true),
        (r"(?<x>.)\k<x>", "aa", true),
        ("(?<=a)b", "ab", true),
        ("(?<!a)b", "ab", false),
        ("a(?i)b|c", "aC", true),
        ("a(?i)b|c", "c", false),
        ("a(?i)b|c", "Ab", false),
        ("(?i-m:A)b", "ab", true),
        ("(?x) a b # c", "ab", true),
        ("[a&&b]", "a", false),
        ("[~~a]", "~", true),
        ("[]a]", "]", true),
        ("[a-c-e]", "-", true),
        ("[!--]", ",", true),
        (r"[\d-]", "-", true),
        (r"\h+\Z", "ff\n", true),
        (r"\p{Alpha}\P{Digit}", "äx", true),
        (r"\u0041\x42\103", "ABC", false),
        (r"\u{41}\x42", "AB", true),
        ("]", "]", true),
        ("(a)?(?(1)b|c)", "c", true),
    ] {
        let expected = if pattern.contains(r"\103") {
            None
        } else {
            Some(expected)
        };
        assert_eq!(found(pattern, text), expected, "{pattern:?} on {text:?}");
    }
    let both = RubyRegex::new("a . b", IGNORE_CASE | EXTENDED | DOT_ALL).unwrap();
    assert_eq!(both.is_match("A\nB"), Ok(true));
}

#[test]
fn what_ruby_refuses() {
    for pattern in [
        "*",
        "+a",
        "?",
        "a|*",
        "(*)",
        "a)",
        "(a",
        "[a",
        "[]",
        "[^]",
        "[z-a]",
        "[a--b]",
        r"[\d-z]",
        r"[a-\d]",
        "a{2,1}",
        "{2}",
        r"\1",
        r"\8",
        "(?)",
        "(?P<a>b)",
        "(?^a)",
        r"(?<n>a)(b)\1",
        r"\x",
        r"\k<a>",
        "(?~a)",
        r"(a\g<1>?)",
        "(?(1))",
        "((?(3))())",
        "(?#()(?(1)a)",
        "(?x) # (\n(?(1)a)",
        "(?<x>a)(?(1)b)",
    ] {
        assert!(RubyRegex::new(pattern, 0).is_err(), "{pattern:?}");
    }
}

#[test]
fn a_pattern_may_name_thousands() {
    let names: Vec<String> = (0..2000)
        .map(|n| format!(r"node{n}\.some\.example\.org"))
        .collect();
    let pattern = format!("^({})$", names.join("|"));
    assert!(pattern.len() > 48 * 1024);
    assert_eq!(found(&pattern, "node1999.some.example.org"), Some(true));
    assert_eq!(found(&pattern, "node2000.some.example.org"), Some(false));
}

#[test]
fn limits() {
    assert!(RubyRegex::new(&"a".repeat(MAX_REGEX + 1), 0).is_err());
    assert!(RubyRegex::new("((((a{1000}){1000}){1000}){1000})", 0).is_err());
    assert!(RubyRegex::new(&("(".repeat(5000) + &")".repeat(5000)), 0).is_err());
    assert!(RubyRegex::new(&"[".repeat(5000), 0).is_err());
    assert!(RubyRegex::new(&"(?i)".repeat(4000), 0).is_err());
    // Exponential in Ruby; here it fails with an error.
    let slow = RubyRegex::new(r"^(a|aa)+\1$", 0).unwrap();
    assert!(slow.is_match(&("a".repeat(60) + "b")).is_err());
}

proptest! {
    #[test]
    fn any_text(pattern in ".{0,40}", text in ".{0,20}") {
        found(&pattern, &text);
    }

    #[test]
    fn likely_text(
        pattern in r"[ab()\[\]{}?*+|^$.\\0-9dwzAZPkux:=!<>#i, &-]{0,16}",
        text in "[ab1]{0,6}",
    ) {
        found(&pattern, &text);
    }
}
