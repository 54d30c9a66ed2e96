//! What is limited together: values inside values, and two readers of the same bytes.

use halite::collective::rubyre::RubyRegex;
use halite::jinja::{Environment, EnvironmentOptions};
use halite::target::{MeteredRegex, PyRegex, RegexFlags, RegexMeter};
use halite::wire::budget::Budget;
use halite::wire::envelope::{clear_load, peek_cmd};
use halite::wire::msgpack::{self, Profile, Reader};
use halite::wire::{Value, yaml};
use std::sync::LazyLock;

/// A load in the clear: the request server and the worker read the same command from it, wherever it is cut.
pub fn envelope_peek(data: &[u8]) {
    let whole = clear_load(data);
    if let Ok(clear) = &whole {
        let cmd = clear.head.cmd;
        assert!(clear.load.str("cmd") == cmd || cmd.is_none(), "{clear:?}");
        let names = clear.load.iter().map(|(name, _)| name.as_str());
        assert!(names.clone().all(|name| name.is_some()));
        let encoded = |value: &Value| msgpack::encode(value, Profile::Local);
        let decoded = msgpack::decode(data).expect("a load is a document");
        assert_eq!(encoded(&decoded), encoded(&clear.load.clone().into()));
    }
    // The start of a sealed load is all that the request server sees.
    let sealed = msgpack::decode_load(data, Budget::of(data.len()));
    for at in [1, 8, 64, 320, data.len()] {
        let start = data.get(..at.min(data.len())).unwrap_or_default();
        if let (Some(seen), Ok(load)) = (peek_cmd(start), &sealed) {
            assert_eq!(load.str("cmd"), Some(seen));
        }
    }
}

/// Extensions, lists and maps inside each other, as the bytes say: the innermost is the first.
pub fn ext_types(data: &[u8]) {
    let bytes = nested(&data[..data.len().min(4096)]);
    let mut reader = Reader::new(&bytes);
    let skipped = reader.skip().map(<[u8]>::len);
    if let Ok(value) = msgpack::decode(&bytes) {
        assert_eq!(skipped, Ok(bytes.len()));
        assert!(depth(&value) <= msgpack::MAX_DEPTH);
        let again = msgpack::encode(&value, Profile::Local);
        assert_eq!(msgpack::decode(&again), Ok(value));
    }
    let _ = clear_load(&[&b"\x81\xa1x"[..], &bytes].concat());
}

fn nested(steps: &[u8]) -> Vec<u8> {
    // What stands before the innermost is written backwards, so that each step is as short as its own bytes.
    let (mut before, mut behind) = (vec![0xc0], Vec::new());
    for step in steps {
        let length = before.len() + behind.len();
        let (kind, name, tail) = match step % 8 {
            0 => (Some(79), &b"\x92\xa1n"[..], None),
            1 => (Some(79), &b""[..], None),
            2 => (Some(78), &b""[..], None),
            3 => (Some(*step), &b""[..], None),
            4 => (None, &b"\x91"[..], None),
            5 => (None, &b"\x81\xa1k"[..], None),
            6 => (None, &b"\x81"[..], Some(0xc0)),
            _ => (None, &b"\x93\x01"[..], Some(step & 0x7f)),
        };
        before.extend(name.iter().rev());
        behind.extend(tail);
        if let Some(kind) = kind {
            before.push(kind);
            let length = (length + name.len()) as u32;
            before.extend(length.to_be_bytes().iter().rev());
            before.push(0xc9);
        }
    }
    before.reverse();
    before.extend(behind);
    before
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Map(map) => {
            let inner = map.iter().map(|(k, v)| depth(k).max(depth(v)));
            1 + inner.max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Pays for this many steps and this much text.
struct Purse(usize);

impl RegexMeter for Purse {
    type Error = ();

    fn steps(&mut self, steps: usize) -> Result<(), ()> {
        self.0 = self.0.checked_sub(steps).ok_or(())?;
        Ok(())
    }

    fn grown(&mut self, length: usize) -> Result<(), ()> {
        if length > 1 << 16 {
            Err(())
        } else {
            self.steps(1)
        }
    }
}

/// A regular expression on the first line, a text on the others: Python's and Ruby's, and what is paid for finds the same.
pub fn target_regex(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else {
        return;
    };
    let (pattern, text) = input
        .split_once('\n')
        .unwrap_or((input, "web1.example.org"));
    if let Ok(regex) = PyRegex::new(pattern) {
        let _ = regex.matches(text);
    }
    if let Ok(regex) = RubyRegex::new(pattern, 0) {
        let _ = regex.is_match(text);
    }
    let mode = RegexFlags {
        exact: true,
        ..RegexFlags::default()
    };
    let mut purse = Purse(20_000);
    let Ok(Ok(metered)) = MeteredRegex::new(pattern, mode, &mut purse) else {
        return;
    };
    if let Ok(found) = metered.captures(text, 0, &mut purse) {
        assert_eq!(found, metered.regex.captures(text, 0), "{pattern:?}");
    }
    if let Ok(template) = halite::target::RegexTemplate::new(r"\g<0>-", &metered.regex) {
        let _ = metered.replace(text, &template, &mut purse);
    }
}

/// A template that would run for ever, with little fuel; the input stands inside its loops.
pub fn jinja_budget(data: &[u8]) {
    let inner = String::from_utf8_lossy(data);
    let source = format!(
        "{{% set t = 'ab ' * 400 %}}{{% for i in range(1000) %}}{{% for j in range(1000) %}}{inner}{{% endfor %}}{{% endfor %}}"
    );
    let options = EnvironmentOptions {
        fuel: 20_000,
        max_output: 1 << 16,
        max_size: 1 << 14,
        strict_undefined: false,
        ..EnvironmentOptions::default()
    };
    if let Ok(output) = Environment::new(options).render(&source, "fuzz", Vec::new()) {
        assert!(output.len() <= 1 << 16);
    }
}

/// Arguments of a load, lines of text or msgpack: what they become is no larger than a few times what they were.
pub fn kwargs(data: &[u8]) {
    let args = match msgpack::decode(data) {
        Ok(Value::Array(args)) => args,
        _ => {
            let text = String::from_utf8_lossy(data);
            text.split('\n').map(Value::from).collect()
        }
    };
    let size = |values: Vec<Value>| msgpack::encode(&values.into(), Profile::Wire).len();
    let before = size(args.clone());
    for text in args.iter().filter_map(Value::as_str) {
        if let Some((name, value)) = yaml::parse_kwarg(text) {
            assert!(text.starts_with(&format!("{name}={value}")));
        }
    }
    let after = size(yaml::wire_input(&args, &["a".to_owned()]));
    assert!(after <= 32 * before + 1024, "{before} became {after}");
}

static COMMANDS: LazyLock<Vec<clap::Command>> = LazyLock::new(halite::cli::commands);

/// A Saltfile, for each command.
pub fn saltfile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(Value::Map(content)) = yaml::parse(text) else {
        return;
    };
    for command in COMMANDS.iter() {
        let words = halite::cli::saltfile::words(command, &content, |_| false);
        // Whatever it says, it adds options and nothing else.
        for word in words.unwrap_or_default() {
            let word = word.to_string_lossy().into_owned();
            assert!(word.starts_with("--") && word.len() > 2, "{word:?}");
        }
    }
}
