use super::*;
use crate::ruby::{Datum, DatumError, samples};
use halite_wire::budget::{MAX_DEPTH, MAX_VALUES};
use proptest::prelude::*;

fn regexp(source: &str, options: u8) -> Datum {
    Datum::Regexp {
        source: source.into(),
        options,
    }
}

fn hash(pairs: &[(Datum, Datum)]) -> Datum {
    Datum::Hash(pairs.to_vec())
}

/// Documents written by Psych 4.0.4 with libyaml 0.2.5, and their values.
fn documents() -> Vec<(&'static str, Datum)> {
    let int = Datum::Int;
    let list = |items: &[Datum]| Datum::Array(items.to_vec());
    let symbol = |name: &str| Datum::symbol(name);
    vec![
        ("--- pong\n", "pong".into()),
        ("--- ''\n", "".into()),
        ("--- \" \"\n", " ".into()),
        ("--- 'a\n\n  '\n", "a\n".into()),
        ("--- \"a\\n\\n\"\n", "a\n\n".into()),
        ("--- |-\n  a\n  b\n", "a\nb".into()),
        ("--- |+\n  a\n  b\n\n...\n", "a\nb\n\n".into()),
        ("--- |2+\n\n\n\n...\n", "\n\n\n".into()),
        ("--- |2-\n   a\n  b\n", " a\nb".into()),
        ("--- !!str '<<'\n", "<<".into()),
        ("--- \"y\"\n", "y".into()),
        ("--- '12'\n", "12".into()),
        ("--- '2020-01-01'\n", "2020-01-01".into()),
        ("--- 'a: b'\n", "a: b".into()),
        ("--- \"#x\"\n", "#x".into()),
        ("--- -\"x\n", "-\"x".into()),
        ("--- '089'\n", "089".into()),
        ("--- é\n", "é".into()),
        ("--- \"a\\tb\"\n", "a\tb".into()),
        ("--- \"~\"\n", "~".into()),
        ("--- 1e5\n", "1e5".into()),
        ("--- '1_000'\n", "1_000".into()),
        ("--- '1:30'\n", "1:30".into()),
        ("--- \"/node/\"\n", "/node/".into()),
        ("--- \">=\"\n", ">=".into()),
        (
            "--- word word word word word word word word word word word word word word word word\n  word word word\n",
            "word ".repeat(19).trim_end().into(),
        ),
        ("--- !binary |-\n  /w==\n", Datum::Bytes(vec![0xff])),
        ("--- :a\n", symbol("a")),
        ("--- :a b\n", symbol("a b")),
        ("--- ! ':a: b'\n", symbol("a: b")),
        ("--- ::x\n", symbol(":x")),
        ("--- !ruby/regexp /x/\n", regexp("x", 0)),
        ("--- !ruby/regexp /a\\/b/mi\n", regexp("a/b", 5)),
        ("---\n", Datum::Nil),
        ("--- true\n", Datum::Bool(true)),
        ("--- -5\n", int(-5)),
        ("--- 1208925819614629174706176\n", int(1 << 80)),
        ("--- 1.5\n", Datum::Float(1.5)),
        ("--- 1.0e+20\n", Datum::Float(1e20)),
        ("--- 1.0e+16\n", Datum::Float(1e16)),
        ("--- 1.0e+15\n", Datum::Float(1e15)),
        (
            "--- 123456789012345.6\n",
            Datum::Float(123_456_789_012_345.6),
        ),
        ("--- 0.0001\n", Datum::Float(1e-4)),
        ("--- 1.0e-05\n", Datum::Float(1e-5)),
        ("--- .inf\n", Datum::Float(f64::INFINITY)),
        ("--- -.inf\n", Datum::Float(f64::NEG_INFINITY)),
        ("--- []\n", list(&[])),
        ("--- {}\n", hash(&[])),
        ("---\n- []\n", list(&[list(&[])])),
        (
            "---\n- - 1\n  - 2\n- - 3\n",
            list(&[list(&[int(1), int(2)]), list(&[int(3)])]),
        ),
        (
            "---\n:a:\n- 1\n- - 2\nb:\n  :c: {}\n",
            hash(&[
                (symbol("a"), list(&[int(1), list(&[int(2)])])),
                ("b".into(), hash(&[(symbol("c"), hash(&[]))])),
            ]),
        ),
        (
            "---\n? - 1\n  - 2\n: 3\n",
            hash(&[(list(&[int(1), int(2)]), int(3))]),
        ),
        (
            "---\n! '': 1\n1.5: 2\n'': 3\n? |-\n  a\n  b\n: 4\n",
            hash(&[
                (Datum::Nil, int(1)),
                (Datum::Float(1.5), int(2)),
                ("".into(), int(3)),
                ("a\nb".into(), int(4)),
            ]),
        ),
        (
            "---\nk: !binary |-\n  //4=\n!binary \"/w==\": 1\n",
            hash(&[
                ("k".into(), Datum::Bytes(vec![0xff, 0xfe])),
                (Datum::Bytes(vec![0xff]), int(1)),
            ]),
        ),
    ]
}

#[test]
fn documents_are_the_text_of_psych() {
    for (text, datum) in documents() {
        assert_eq!(read(text.as_bytes()), Ok(datum.clone()), "{text}");
        assert_eq!(write(&datum), text);
    }
}

#[test]
fn names_that_psych_would_misread_are_tagged() {
    for name in ["", "\"q\"", "'q'", "a\nb", "\""] {
        let symbol = Datum::symbol(name);
        let text = write(&symbol);
        assert!(
            text.starts_with("--- !ruby/symbol") || name == "\"",
            "{text}"
        );
        assert_eq!(read(text.as_bytes()), Ok(symbol), "{text}");
    }
}

/// Line ends in libyaml, but not in YAML 1.2.
#[test]
fn line_ends_of_unicode_are_escaped() {
    for end in ["\u{85}", "\u{2028}", "\u{2029}"] {
        let name = Datum::symbol(format!("a{end}b"));
        let datum = Datum::Array(vec![
            Datum::Hash(vec![(name, format!("{end}x\n{end}").as_str().into())]),
            Datum::from(end),
        ]);
        let text = write(&datum);
        assert!(!text.contains(end), "{text}");
        assert_eq!(read(text.as_bytes()), Ok(datum), "{text}");
    }
}

#[test]
fn plain_text_means_what_it_means_to_psych() {
    let int = Datum::Int;
    let float = Datum::Float;
    let text = |text: &str| Datum::from(text);
    let symbol = |name: &str| Datum::symbol(name);
    let cases = [
        ("ping", text("ping")),
        ("~", Datum::Nil),
        ("NULL", Datum::Nil),
        ("Yes", Datum::Bool(true)),
        ("off", Datum::Bool(false)),
        ("y", text("y")),
        ("n", text("n")),
        (":foo", symbol("foo")),
        (":\"foo bar\"", symbol("foo bar")),
        (":'a'b", symbol("a")),
        ("a:b", text("a:b")),
        ("1,000", int(1000)),
        ("1_000", int(1000)),
        ("1__0", text("1__0")),
        ("+5", int(5)),
        ("-0", int(0)),
        ("010", int(8)),
        ("-010", int(-8)),
        ("0_", int(0)),
        ("08", text("08")),
        ("0x1F", int(31)),
        ("-0xf", int(-15)),
        ("0b101", int(5)),
        ("1:30", int(5400)),
        ("1:30:15", int(5415)),
        ("-1:30", int(-1800)),
        ("1:60", text("1:60")),
        ("1:30.5", float(5430.0)),
        ("1.", float(1.0)),
        (".5", float(0.5)),
        ("-.5", float(-0.5)),
        (".", text(".")),
        ("1.5e+3", float(1500.0)),
        ("1.5e3", text("1.5e3")),
        ("1.e+2", float(100.0)),
        ("1,000.5", float(1000.5)),
        (".INF", float(f64::INFINITY)),
        ("1.2.3", text("1.2.3")),
        ("2026-11-22", text("2026-11-22")),
        ("2026-11-22 10:00:00 Z", text("2026-11-22 10:00:00 Z")),
        ("<<", text("<<")),
        ("---a", text("---a")),
        ("!ruby/symbol a b", symbol("a b")),
        ("!ruby/sym a", symbol("a")),
        ("!ruby/regexp /a\\/b/mx", regexp("a/b", 6)),
        ("!!binary YWI=", Datum::Bytes(b"ab".to_vec())),
        ("!!str 12", text("12")),
        ("!!float 12", float(12.0)),
        ("!!int \"12\"", int(12)),
        ("! \"12\"", int(12)),
        ("\"12\"", text("12")),
    ];
    for (plain, datum) in cases {
        assert_eq!(
            read(format!("--- {plain}\n").as_bytes()),
            Ok(datum),
            "{plain}"
        );
    }
    let nan = read(b"--- .NaN");
    assert!(matches!(nan, Ok(Datum::Float(n)) if n.is_nan()));
    assert_eq!(read(b""), Ok(Datum::Nil));
}

#[test]
fn hashes_are_filled_as_by_ruby() {
    let pairs = |pairs: &[(&str, i128)]| {
        let pairs = pairs.iter().map(|(k, v)| (Datum::from(*k), Datum::Int(*v)));
        Datum::Hash(pairs.collect())
    };
    let cases = [
        ("{a: 1, b: 2, a: 3}", pairs(&[("a", 3), ("b", 2)])),
        ("a: 1\n<<: {a: 2, b: 3}\n", pairs(&[("a", 2), ("b", 3)])),
        ("<<: [{a: 1}, {a: 2}]\n", pairs(&[("a", 1)])),
        ("<<: 5\n", pairs(&[("<<", 5)])),
        ("!!str <<: 5\n", pairs(&[("<<", 5)])),
    ];
    for (text, datum) in cases {
        assert_eq!(read(text.as_bytes()), Ok(datum), "{text}");
    }
    let many: String = (0..40).map(|n| format!("k{}: {n}\n", n % 20)).collect();
    let read = read(many.as_bytes()).unwrap();
    let Datum::Hash(pairs) = &read else { panic!() };
    assert_eq!(pairs.len(), 20);
    assert_eq!(read.get("k3"), Some(&Datum::Int(23)));
}

#[test]
fn what_is_no_data_is_refused() {
    for (text, what) in [
        ("--- &a [1]", "an anchor"),
        ("--- &a x", "an anchor"),
        ("--- &a {b: c}", "an anchor"),
        ("- &a x\n- *a", "an anchor"),
        ("--- !ruby/object:Object {}", "!ruby/object:Object"),
        ("--- !ruby/object:Gem::Installer\ni: x", "Gem::Installer"),
        ("--- !ruby/hash:Foo {}", "!ruby/hash:Foo"),
        ("--- !ruby/array:Foo []", "!ruby/array:Foo"),
        ("--- !ruby/string:Foo x", "!ruby/string:Foo"),
        ("--- !ruby/class Kernel", "!ruby/class"),
        ("--- !ruby/struct:Foo {}", "!ruby/struct:Foo"),
        ("--- !ruby/range 1..2", "!ruby/range"),
        ("--- !ruby/exception:Foo {}", "!ruby/exception:Foo"),
        ("--- !ruby/marshalable:Foo {}", "!ruby/marshalable:Foo"),
        ("--- !!set {a: }", "set"),
        ("--- !ruby/symbol {}", "!ruby/symbol"),
        ("--- !!str [a]", "str"),
        (
            "%TAG ! tag:example.com:\n--- !ruby/sym a",
            "tag:example.com:ruby/sym",
        ),
        ("--- !<!ruby/object:Foo> x", "!ruby/object:Foo"),
    ] {
        match read(text.as_bytes()) {
            Err(DatumError::Dangerous(told)) => assert!(told.contains(what), "{told}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn bad_text_is_refused() {
    for text in [
        &b"\xff"[..],
        b"a: [1",
        b"\"x",
        b"a: b: c",
        b"--- 1\n--- 2\n",
        b"a\x00b",
        b"--- !binary \"!\"",
        b"--- !ruby/regexp x",
        b"--- !ruby/regexp /x/q",
        b"--- !!float x",
        b"*a",
        b"{a: 1}}",
    ] {
        let error = read(text);
        assert!(matches!(error, Err(DatumError::Malformed(_))), "{error:?}");
    }
}

#[test]
fn limits_hold() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(read(nested(MAX_DEPTH).as_bytes()).is_ok());
    for large in [
        nested(MAX_DEPTH + 1),
        nested(200_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        "- a\n".repeat(MAX_VALUES + 1),
        format!("--- {}", "9".repeat(60)),
        " ".repeat(crate::ruby::MAX_BYTES + 1),
    ] {
        let error = read(large.as_bytes());
        assert!(matches!(error, Err(DatumError::TooLarge(_))), "{error:?}");
    }
    let laughs = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
    let error = read(laughs.as_bytes());
    assert!(matches!(error, Err(DatumError::Dangerous(_))));
}

proptest! {
    #[test]
    fn what_was_written_is_read(datum in samples::datum()) {
        let text = write(&datum);
        prop_assert_eq!(read(text.as_bytes()), Ok(datum), "{}", text);
    }

    #[test]
    fn noise_has_an_answer(text in "[-:?!&*\\[\\]{}'\"|>%@`, a-c0-3.\n\t#~<]{0,60}") {
        let _ = read(text.as_bytes());
    }
}
