use super::*;
use crate::ruby::{Datum, DatumError, samples};
use halite_wire::budget::{MAX_DEPTH, MAX_VALUES};
use proptest::prelude::*;

fn symbols(pairs: &[(&str, Datum)]) -> Datum {
    let pairs = pairs.iter().map(|(k, v)| (Datum::symbol(*k), v.clone()));
    Datum::Hash(pairs.collect())
}

/// Dumps made by Ruby 3.1, without their version, and their values.
fn dumps() -> Vec<(&'static [u8], Datum)> {
    let regexp = |source: &str, options| Datum::Regexp {
        source: source.into(),
        options,
    };
    vec![
        (b"0", Datum::Nil),
        (b"T", Datum::Bool(true)),
        (b"F", Datum::Bool(false)),
        (b"i\x00", Datum::Int(0)),
        (b"i\x7f", Datum::Int(122)),
        (b"i\x01\x7b", Datum::Int(123)),
        (b"i\x02\x00\x01", Datum::Int(256)),
        (b"i\xfa", Datum::Int(-1)),
        (b"i\x80", Datum::Int(-123)),
        (b"i\xff\x84", Datum::Int(-124)),
        (b"i\xff\x00", Datum::Int(-256)),
        (b"i\xfe\xff\xfe", Datum::Int(-257)),
        (b"i\x04\xff\xff\xff\x3f", Datum::Int((1 << 30) - 1)),
        (b"i\xfc\x00\x00\x00\xc0", Datum::Int(-(1 << 30))),
        (b"l+\x07\x00\x00\x00\x40", Datum::Int(1 << 30)),
        (b"l+\x07ne\x01k", Datum::Int(1_795_253_614)),
        (b"l+\x08\x00\x00\x00\x00\x01\x00", Datum::Int(1 << 32)),
        (b"l-\x0a\0\0\0\0\0\0\0\0\x40\0", Datum::Int(-(1i128 << 70))),
        (b"f\x081.5", Datum::Float(1.5)),
        (b"f\x0b0.0001", Datum::Float(0.0001)),
        (b"f\x091e-5", Datum::Float(1e-5)),
        (b"f\x0d-2.5e-10", Datum::Float(-2.5e-10)),
        (b"f\x0e123456789", Datum::Float(123_456_789.0)),
        (b"f\x081e2", Datum::Float(100.0)),
        (b"f\x091e20", Datum::Float(1e20)),
        (b"f\x060", Datum::Float(0.0)),
        (b"f\x08inf", Datum::Float(f64::INFINITY)),
        (b"f\x09-inf", Datum::Float(f64::NEG_INFINITY)),
        (b":\x06a", Datum::symbol("a")),
        (b"I:\x07\xc3\xa9\x06:\x06ET", Datum::symbol("é")),
        (b"\"\x06x", Datum::Bytes(b"x".to_vec())),
        (b"I\"\x09ping\x06:\x06ET", "ping".into()),
        (b"I/\x07\xc3\xa9\x10\x06:\x06ET", regexp("é", 0)),
        (b"I/\x06e\x01\x06:\x06EF", regexp("e", 1)),
        (
            b"[\x08I:\x07\xc3\xa9\x06:\x06ET;\x00:\x06a",
            Datum::Array(vec![
                Datum::symbol("é"),
                Datum::symbol("é"),
                Datum::symbol("a"),
            ]),
        ),
        (
            b"{\x06:\x06a\"\x06x",
            symbols(&[("a", Datum::Bytes(b"x".to_vec()))]),
        ),
    ]
}

fn versioned(bytes: &[u8]) -> Vec<u8> {
    [&VERSION[..], bytes].concat()
}

#[test]
fn values_are_the_bytes_of_ruby() {
    for (bytes, datum) in dumps() {
        let bytes = versioned(bytes);
        assert_eq!(read(&bytes), Ok(datum.clone()), "{bytes:?}");
        assert_eq!(write(&datum), bytes, "{datum:?}");
    }
    let nan = read(b"\x04\x08f\x08nan").unwrap();
    assert!(matches!(nan, Datum::Float(n) if n.is_nan()));
    assert_eq!(write(&nan), b"\x04\x08f\x08nan");
}

#[test]
fn encodings_links_and_defaults_are_read() {
    let cases: &[(&[u8], Datum)] = &[
        (b"I\"\x06a\x06:\x06EF", "a".into()),
        (b"I\"\x06\xff\x06:\x06ET", Datum::Bytes(vec![0xff])),
        (
            b"I\"\x06\xe9\x06:\x0dencoding\"\x0fISO-8859-1",
            Datum::Bytes(vec![0xe9]),
        ),
        (b"I\"\x06e\x06:\x0dencoding\"\x0fISO-8859-1", "e".into()),
        (
            b"I\"\x07\xe9\x00\x06:\x0dencoding\"\x0dUTF-16LE",
            Datum::Bytes(vec![0xe9, 0]),
        ),
        (b"}\x06:\x06ai\x06i\n", symbols(&[("a", Datum::Int(1))])),
        // Integers beyond 30 bits, floats and names of encodings are numbered.
        (
            b"[\nl+\x07\0\0\0\x80f\x081.5l+\x08\0\0\0\0\0\x01I\"\x06q\x06:\x06ET@\x09",
            Datum::Array(vec![
                Datum::Int(1 << 31),
                Datum::Float(1.5),
                Datum::Int(1 << 40),
                "q".into(),
                "q".into(),
            ]),
        ),
        (
            b"[\x09I\"\x06\xe9\x06:\x0dencoding\"\x0fISO-8859-1I\"\x06\xe8\x06;\x00@\x07[\x00@\x09",
            Datum::Array(vec![
                Datum::Bytes(vec![0xe9]),
                Datum::Bytes(vec![0xe8]),
                Datum::Array(Vec::new()),
                Datum::Array(Vec::new()),
            ]),
        ),
        // The last of two equal keys is used.
        (
            b"{\x07:\x06ai\x06;\x00i\x07",
            symbols(&[("a", Datum::Int(2))]),
        ),
    ];
    for (bytes, datum) in cases {
        assert_eq!(read(&versioned(bytes)), Ok(datum.clone()), "{bytes:?}");
    }
}

#[test]
fn all_that_is_no_data_is_refused_by_its_name() {
    let cases: &[(&[u8], &str)] = &[
        (b"o:\x0bObject\x00", "an object of Ruby"),
        (b"u:\x09Time\x0d\0\0\0\0\0\0\0\0", "_dump"),
        (b"U:\x09Thingi\x00", "marshal_dump"),
        (b"c\x0bString", "a class"),
        (b"m\x0bKernel", "a module"),
        (b"M\x0bKernel", "a class or module"),
        (b"e:\x0bKernel\"\x00", "extended"),
        (b"C:\x09Text\"\x00", "subclass"),
        (b"IC:\x09Text\"\x00\x06:\x06ET", "subclass"),
        (b"S:\x09Pair\x00", "a Struct"),
        (b"d:\x09Proci\x00", "C library"),
        (b"I\"\x06a\x06:\x0a@evil0", "instance variable"),
        (b"I[\x00\x06:\x06ET", "instance variables"),
        (b"[\x06@\x00", "contains itself"),
    ];
    for (bytes, what) in cases {
        match read(&versioned(bytes)) {
            Err(DatumError::Dangerous(text)) => assert!(text.contains(what), "{text}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
}

#[test]
fn bad_bytes_are_refused() {
    let cases: &[&[u8]] = &[
        b"",
        b"x",
        b"00",
        b"i",
        b"i\x04\xff",
        b"l+\x07ne",
        b"l*\x06ab",
        b"\"\x0aab",
        b"\"\xfa",
        b"\"\x04\xff\xff\xff\x7f",
        b"[\x04\xff\xff\xff\x7f",
        b"[\x04\xff\xff\xff\xffi",
        b"{\x04\xff\xff\xff\x3f00",
        b"[\x070",
        b"{\x060",
        b";\x00",
        b"@\x06",
        b":\x06\xff",
        b"/\x06\xff\x00",
        b"f\x08abc",
        b"f\x0dinfinity",
        b"I\"\x06a\x06\"\x06ET",
        b"I\"\x06a\x06:\x06E0",
        b"I\"\x06a\x06:\x0dencodingi\x00",
    ];
    for bytes in cases {
        let error = read(&versioned(bytes));
        assert!(
            matches!(error, Err(DatumError::Malformed(_))),
            "{bytes:?}: {error:?}"
        );
    }
    for bytes in [&b""[..], b"\x04", b"\x04\x09T", b"\x03\x08T", b"---\n"] {
        assert!(matches!(read(bytes), Err(DatumError::Malformed(_))));
    }
}

#[test]
fn limits_hold() {
    let too_large = |bytes: Vec<u8>| {
        let error = read(&bytes);
        assert!(matches!(error, Err(DatumError::TooLarge(_))), "{error:?}");
    };
    // Deep.
    let nested = |depth: usize| versioned(&[&b"[\x06".repeat(depth)[..], b"0"].concat());
    assert!(read(&nested(MAX_DEPTH)).is_ok());
    too_large(nested(MAX_DEPTH + 1));
    too_large(nested(1_000_000));
    // Deep by a link: the first element is a chain of 60, the second links to it below another chain.
    let chain = |depth: usize| b"[\x06".repeat(depth);
    let linked = [&b"[\x07"[..], &chain(60), b"0", &chain(60), b"@\x06"].concat();
    too_large(versioned(&linked));
    // Many values.
    let mut many = versioned(b"[");
    many.extend([3, 0x00, 0x00, 0x04]);
    many.extend(vec![b'0'; MAX_VALUES]);
    too_large(many);
    // A long number.
    let mut long = versioned(b"l+\x0e");
    long.extend([0xff; 18]);
    too_large(long);
    // A message that is too long.
    too_large(vec![4; crate::ruby::MAX_BYTES + 1]);
}

#[test]
fn a_small_bomb_does_not_grow() {
    // Each array contains the one before it ten times: 10^9 strings in 200 bytes.
    let mut bytes = b"[\x0e".to_vec();
    bytes.extend(b"[\x0f");
    bytes.extend(b"0".repeat(10));
    for number in 1u8..9 {
        bytes.extend(b"[\x0f");
        bytes.extend([b'@', number + 5].repeat(10));
    }
    let error = read(&versioned(&bytes));
    assert!(matches!(error, Err(DatumError::TooLarge(_))), "{error:?}");
    // One long text, many times.
    let mut bytes = b"[\x02\x10\x27\"\x02\xff\xff".to_vec();
    bytes.extend([b'x'; 65535]);
    bytes.extend(b"@\x06".repeat(9999));
    let error = read(&versioned(&bytes));
    assert!(matches!(error, Err(DatumError::TooLarge(_))), "{error:?}");
}

#[test]
fn every_cut_and_every_changed_octet_has_an_answer() {
    let bytes = write(&samples::every_kind());
    for at in 0..bytes.len() {
        assert!(read(&bytes[..at]).is_err());
        for octet in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = octet;
            let _ = read(&changed);
        }
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(datum in samples::datum()) {
        prop_assert_eq!(read(&write(&datum)), Ok(datum));
    }

    #[test]
    fn noise_has_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&versioned(&bytes));
    }
}
