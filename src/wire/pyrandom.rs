//! Python's random numbers: MT19937 seeded like `random.Random(seed)`, so that a seed selects the
//! same things in halite and in stock Salt.

use super::Value;
use rand::Rng;
use sha2::{Digest, Sha512};
use std::collections::HashSet;

const N: usize = 624;
const M: usize = 397;

/// A generator.
pub struct Mersenne {
    state: [u32; N],
    at: usize,
}

impl Mersenne {
    /// `random.Random(seed)` for a seed of text.
    pub fn from_text(seed: &str) -> Mersenne {
        Mersenne::from_bytes(seed.as_bytes())
    }

    /// `random.Random(seed)` for a seed of bytes.
    pub fn from_bytes(seed: &[u8]) -> Mersenne {
        let mut bytes = seed.to_vec();
        bytes.extend_from_slice(&Sha512::digest(seed));
        Mersenne::from_big(&bytes)
    }

    /// `random.Random(seed)`; `None` for a value that Python does not accept as a seed.
    pub fn from_value(seed: &Value) -> Option<Mersenne> {
        Some(match seed {
            Value::Str(text) => Mersenne::from_text(text),
            Value::Bytes(bytes) => Mersenne::from_bytes(bytes),
            Value::Bool(b) => Mersenne::from_big(&[u8::from(*b)]),
            Value::Int(i) => Mersenne::from_big(&i.unsigned_abs().to_be_bytes()),
            Value::UInt(u) => Mersenne::from_big(&u.to_be_bytes()),
            Value::Float(f) => Mersenne::from_big(&float_hash(*f).to_be_bytes()),
            Value::Nil | Value::Array(_) | Value::Map(_) => return None,
        })
    }

    /// From a big-endian number.
    fn from_big(bytes: &[u8]) -> Mersenne {
        // The lowest 32 bits of the number come first.
        let mut words: Vec<u32> = bytes
            .rchunks(4)
            .map(|chunk| chunk.iter().fold(0, |word, b| (word << 8) | u32::from(*b)))
            .collect();
        while words.len() > 1 && words.last() == Some(&0) {
            words.pop();
        }
        Mersenne::from_words(&words)
    }

    fn from_number(seed: u32) -> Mersenne {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(before ^ (before >> 30))
                .wrapping_add(i as u32);
        }
        Mersenne { state, at: N }
    }

    fn from_words(words: &[u32]) -> Mersenne {
        let mut own = Mersenne::from_number(19_650_218);
        let state = &mut own.state;
        let (mut i, mut j) = (1, 0);
        let mix = |before: u32, factor: u32| (before ^ (before >> 30)).wrapping_mul(factor);
        for _ in 0..N.max(words.len()) {
            state[i] = (state[i] ^ mix(state[i - 1], 1_664_525))
                .wrapping_add(words[j])
                .wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % words.len();
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        for _ in 1..N {
            state[i] = (state[i] ^ mix(state[i - 1], 1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        own
    }

    fn next(&mut self) -> u32 {
        if self.at >= N {
            for i in 0..N {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// `getrandbits`, for 1 to 64 bits.
    fn bits(&mut self, count: u32) -> u64 {
        if count <= 32 {
            return u64::from(self.next() >> (32 - count));
        }
        let low = u64::from(self.next());
        low | (u64::from(self.next() >> (64 - count)) << 32)
    }

    /// A number below `n`, which is at least 1 (`Random._randbelow`).
    pub fn below(&mut self, n: u64) -> u64 {
        let count = 64 - n.leading_zeros();
        loop {
            let r = self.bits(count);
            if r < n {
                return r;
            }
        }
    }
}

/// `hash(float)`, which Python uses as the seed (`Python/pyhash.c _Py_HashDouble`): the number
/// modulo 2⁶¹ − 1, with negative results as two's complement.
fn float_hash(f: f64) -> u64 {
    match float_size(f) {
        1 if f < 0.0 => 2u64.wrapping_neg(),
        size if f < 0.0 => size.wrapping_neg(),
        size => size,
    }
}

fn float_size(f: f64) -> u64 {
    const BITS: i32 = 61;
    const MODULUS: u64 = (1 << BITS) - 1;
    if f.is_infinite() {
        return 314_159;
    }
    if f == 0.0 || f.is_nan() {
        return 0;
    }
    let raw = f.abs().to_bits();
    let (mantissa, exponent) = match ((raw >> 52) as i32, raw & ((1 << 52) - 1)) {
        (0, m) => (m, -1074),
        (e, m) => (m | (1 << 52), e - 1075),
    };
    let turn = exponent.rem_euclid(BITS) as u32;
    let turned = (u128::from(mantissa) << turn) % u128::from(MODULUS);
    turned as u64
}

/// Where random numbers come from.
pub enum Source {
    /// From a seed.
    Seeded(Box<Mersenne>),
    /// From the system.
    System,
}

impl Source {
    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        match self {
            Source::Seeded(mersenne) => mersenne.below(n),
            Source::System => rand::thread_rng().gen_range(0..n),
        }
    }

    /// The indexes that `random.Random.sample` picks for `k` of `n` items; `None` if `k` is greater
    /// than `n`.
    pub fn sample(&mut self, n: usize, k: usize) -> Option<Vec<usize>> {
        if k > n {
            return None;
        }
        // Python has two algorithms; which one it uses decides what a seed selects.
        let mut set_size = 21;
        if k > 5 {
            let mut power = 1;
            while power < k.saturating_mul(3) {
                power *= 4;
            }
            set_size += power;
        }
        if n <= set_size {
            let mut pool: Vec<usize> = (0..n).collect();
            let pick = |i: usize| {
                let j = self.below((n - i) as u64) as usize;
                let picked = pool[j];
                pool[j] = pool[n - i - 1];
                picked
            };
            return Some((0..k).map(pick).collect());
        }
        let mut selected = HashSet::new();
        let pick = |_| {
            let mut j = self.below(n as u64);
            while !selected.insert(j) {
                j = self.below(n as u64);
            }
            j as usize
        };
        Some((0..k).map(pick).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CPython 3.11 yields for the same seeds.
    #[test]
    fn as_python() {
        let first = |seed: Value, n| Mersenne::from_value(&seed).unwrap().below(n);
        let seeds: [Value; 5] = [
            "x".into(),
            5.into(),
            (-5).into(),
            Value::Float(1.5),
            (1i64 << 40).into(),
        ];
        let got: Vec<u64> = seeds.into_iter().map(|s| first(s, 1 << 40)).collect();
        assert_eq!(got, EXPECTED);
    }

    const EXPECTED: [u64; 5] = [
        694198947283,
        561021090885,
        561021090885,
        318927491352,
        773539241345,
    ];
}
