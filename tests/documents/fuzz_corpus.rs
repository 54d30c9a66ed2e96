//! Runs every fuzz target over its seeds and over some thousands of mutations of them, the same
//! in every run, so that the targets are exercised without nightly and without luck.

#[path = "../../fuzz/src/bodies.rs"]
mod bodies;

use std::path::{Path, PathBuf};

/// Mutations per target, and for those that run something.
const MUTATIONS: usize = 4000;
const FEW_MUTATIONS: usize = 200;
const SLOW: [&str; 3] = ["jinja_budget", "noise_handshake", "target_regex"];
/// Longest mutated input.
const LONGEST: usize = 8192;

fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory(target))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// A small generator of our own, so that a run can be repeated anywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below.max(1)
    }

    fn octet(&mut self) -> u8 {
        // Bytes that mean something to one decoder or another come more often.
        const TELLING: &[u8] =
            b"\x00\x01\x7f\x80\x90\x91\xc0\xc1\xc6\xc7\xdb\xdd\xdf\xff\n :-[]{}()@*,&!|=\"'#%";
        if self.next(2) == 0 {
            TELLING[self.next(TELLING.len())]
        } else {
            self.next(256) as u8
        }
    }

    fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut out = seeds[self.next(seeds.len())].clone();
        for _ in 0..=self.next(6) {
            let at = self.next(out.len() + 1);
            match self.next(7) {
                0 => out.truncate(at),
                1 => out.insert(at, self.octet()),
                2 if at < out.len() => out[at] = self.octet(),
                3 if at < out.len() => out[at] ^= 1 << self.next(8),
                4 if at < out.len() => drop(out.remove(at)),
                5 => {
                    let other = &seeds[self.next(seeds.len())];
                    let from = self.next(other.len() + 1);
                    let part: Vec<u8> = other[from..].iter().take(64).copied().collect();
                    out.splice(at..at, part);
                }
                _ => {
                    let part: Vec<u8> = out[at..].iter().take(32).copied().collect();
                    let times = self.next(20);
                    out.splice(at..at, part.repeat(times));
                }
            }
            out.truncate(LONGEST);
        }
        out
    }
}

fn exercise(target: &str) {
    let (_, body) = bodies::ALL
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a known target");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds.iter().for_each(|seed| body(seed));
    body(b"");
    let mut dice = Dice(0x5a17_0000 + target.len() as u64);
    let mutations = match SLOW.contains(&target) {
        true => FEW_MUTATIONS,
        false => MUTATIONS,
    };
    for n in 0..mutations {
        let input = dice.mutate(&seeds);
        let outcome = std::panic::catch_unwind(|| body(&input));
        assert!(
            outcome.is_ok(),
            "{target}, mutation {n}: {}",
            String::from_utf8_lossy(&input).escape_debug()
        );
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { exercise(stringify!($name)); })*

        #[test]
        fn every_target_has_its_test_and_its_file() {
            let tested = [$(stringify!($name)),*];
            for (name, _) in bodies::ALL {
                assert!(tested.contains(name), "{name}");
                let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fuzz/fuzz_targets/{name}.rs"));
                assert!(file.is_file(), "{name}");
            }
        }
    };
}

targets! { msgpack envelope crypticle_loads event_frame yaml target_compound parse_input return_load jinja sysinspect collective_packet collective_security stomp zmtp ruby_marshal ruby_psych collective_core collective_choria collective_filter arena_message arena_module envelope_peek ext_types target_regex jinja_budget kwargs saltfile zmtp_request tcp_frame ws_stream proxy_header noise_handshake session_gcm cluster_message python_marshal identity_key }
