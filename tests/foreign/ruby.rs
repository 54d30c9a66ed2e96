//! Marshal and Psych's YAML against Ruby itself: thousands of values, there and back. Needs `ruby`.

use halite::collective::ruby::{Datum, DatumError, marshal, psych};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::io::Write;
use std::process::{Command, Stdio};

#[path = "../../src/collective/ruby/samples.rs"]
#[allow(dead_code)]
mod samples;

/// Answers each line in turn. `M`: a dump, which is loaded and dumped again by Marshal and by Psych.
/// `Y`: YAML, which is loaded and dumped by Marshal; `D` if a date came out, `E` if nothing did.
const SCRIPT: &str = r#"
require 'psych'
require 'date'
b = ->(s) { [s].pack('m0') }
STDIN.each_line do |line|
  kind, data = line.chomp.split(' ', 2)
  data = (data || '').unpack1('m')
  begin
    if kind == 'M'
      value = Marshal.load(data)
      # A few texts, such as 0b_, make Psych stumble over its own scanner.
      text = begin; Psych.dump(value); rescue Exception; 'nothing'; end
      again = begin; Psych.unsafe_load(text); rescue Exception; nil; end
      puts [b.(Marshal.dump(value)), b.(text), again == value && text != 'nothing'].join(' ')
    else
      value = Psych.unsafe_load(data.force_encoding('UTF-8'))
      puts [Date, Time].any? { |c| c === value } ? 'D' : b.(Marshal.dump(value))
    end
  rescue Exception => e
    puts "E #{b.(e.message)}"
  end
end
"#;

fn base64(data: &[u8]) -> String {
    halite::wire::base64::encode(data)
}

fn octets(text: &str) -> Vec<u8> {
    halite::wire::base64::decode(text.as_bytes()).unwrap()
}

fn ruby_is_missing() -> bool {
    let missing = Command::new("ruby").arg("--version").output().is_err();
    if missing {
        eprintln!("skipped: there is no ruby; install the package ruby");
    }
    missing
}

/// What Ruby answers to lines.
fn ruby(lines: Vec<String>) -> Vec<String> {
    let mut child = Command::new("ruby")
        .args(["-W0", "-e", SCRIPT])
        .env("LANG", "C.UTF-8")
        .env("RUBYOPT", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ruby is installed");
    let mut stdin = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<String> = answers.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), lines.len());
    answers
}

/// The same values in every run.
fn generate<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut one = || strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(|_| one()).collect()
}

/// Whether two values are the same to Ruby, to which the backslash before a slash in a regular expression is nothing.
fn alike(a: &Datum, b: &Datum) -> bool {
    let plain = |datum: &Datum| format!("{datum:?}").replace("\\\\/", "/");
    plain(a) == plain(b)
}

#[test]
fn values_are_written_and_read_as_by_ruby() {
    if ruby_is_missing() {
        return;
    }
    let mut values = generate(samples::datum(), 3000);
    values.push(samples::every_kind());
    let lines = values
        .iter()
        .map(|value| format!("M {}", base64(&marshal::write(value))));
    let (mut same_text, mut other_text) = (0, 0);
    let mut texts = Vec::new();
    for (value, answer) in values.iter().zip(ruby(lines.collect())) {
        let parts: Vec<&str> = answer.split(' ').collect();
        let [dump, text, stable] = parts[..] else {
            panic!("{value:?}: {answer}");
        };
        // Ruby's dump has links where ours has none.
        assert_eq!(marshal::read(&octets(dump)).as_ref(), Ok(value));
        let text = String::from_utf8(octets(text)).unwrap();
        let ours = psych::write(value);
        if ours == text {
            same_text += 1;
        } else {
            // Only where Psych itself does not read what it wrote.
            assert_eq!(stable, "false", "{value:?}\n{ours}\n{text}");
            other_text += 1;
        }
        if stable == "true" {
            let read = psych::read(text.as_bytes());
            assert!(
                read.as_ref().is_ok_and(|r| alike(r, value)),
                "{text} {read:?}"
            );
        }
        texts.push(ours);
    }
    assert!(same_text > 10 * other_text, "{same_text} {other_text}");
    // What we write, Ruby reads as the same.
    let lines = texts
        .iter()
        .map(|text| format!("Y {}", base64(text.as_bytes())));
    for ((value, text), answer) in values.iter().zip(&texts).zip(ruby(lines.collect())) {
        assert!(!answer.starts_with('E'), "{text}: {answer}");
        let read = marshal::read(&octets(&answer)).unwrap();
        assert!(alike(&read, value), "{text}\n{read:?}\n{value:?}");
    }
}

#[test]
fn plain_text_is_read_as_by_ruby() {
    if ruby_is_missing() {
        return;
    }
    let strategies = [
        "[0-9+_,.:xobeE-]{1,8}",
        "[-+]?[0-9][0-9_,]{0,3}(:[0-5]?[0-9]){1,3}(\\.[0-9_]{0,3})?",
        "[-+]?[0-9_,]{0,4}\\.[0-9_]{0,3}([eE][-+]?[0-9]{0,2})?",
        "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,3})?( ?(Z|[-+][0-9]{1,4}(:[0-9]{2})?))?)?",
        ":[\"']?[a-z:\"']{0,6}",
        "[~ytonfYTONF.:]?[a-zA-Z~]{0,5}",
        "(true|TRUE|True|yes|no|on|off|null|Null|y|n|~|\\.inf|-\\.Inf|\\.nan)",
        "[a-z0-9 !@$%^&*()<>|/\\\\~;=+.-]{1,7}",
    ];
    let texts: Vec<String> = strategies
        .iter()
        .flat_map(|pattern| generate(*pattern, 1500))
        .collect();
    let lines = texts
        .iter()
        .map(|text| format!("Y {}", base64(format!("--- {text}\n").as_bytes())));
    let mut read_by_both = 0;
    for (text, answer) in texts.iter().zip(ruby(lines.collect())) {
        let ours = psych::read(format!("--- {text}\n").as_bytes());
        match answer.as_str() {
            // A date is text for us.
            "D" => assert_eq!(ours, Ok(text.trim().into()), "{text}"),
            error if error.starts_with('E') => {}
            dump => {
                let theirs = marshal::read(&octets(dump)).unwrap();
                // Tags and anchors are refused.
                let ours = match ours {
                    Err(DatumError::Dangerous(_)) if text.trim().starts_with(['!', '&']) => {
                        continue;
                    }
                    Err(e) => panic!("{text:?}: {e}, but {theirs:?}"),
                    Ok(ours) => ours,
                };
                let alike = match (&ours, &theirs) {
                    (Datum::Float(a), Datum::Float(b)) => {
                        (a - b).abs() <= b.abs() * 1e-14 || a.to_bits() == b.to_bits()
                    }
                    _ => ours == theirs,
                };
                assert!(alike, "{text:?}: {ours:?}, but {theirs:?}");
                read_by_both += 1;
            }
        }
    }
    assert!(read_by_both > 9000, "{read_by_both}");
}
