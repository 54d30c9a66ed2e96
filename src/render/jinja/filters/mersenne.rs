//! Python's random numbers from a seed: MT19937 as `random.Random(text)` starts it, so that a seed
//! chooses the same things on halite and on stock Salt.

use sha2::{Digest, Sha512};

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
        let mut bytes = seed.as_bytes().to_vec();
        bytes.extend_from_slice(&Sha512::digest(seed.as_bytes()));
        // The bytes are one number, of which the lowest 32 bits come first.
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

    /// A number below `n`, which is at least 1 and fits 32 bits (`Random._randbelow`).
    pub fn below(&mut self, n: u32) -> u32 {
        let bits = 32 - n.leading_zeros();
        loop {
            let r = self.next() >> (32 - bits);
            if r < n {
                return r;
            }
        }
    }
}
