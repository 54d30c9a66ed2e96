//! Passwords from the system's random numbers (`salt/utils/pycrypto.py secure_password`).

use rand::Rng;

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const SPACE: &str = " \t\n\r\u{b}\u{c}";

/// Characters that a password may contain.
#[derive(Clone, Debug, Default)]
pub struct Alphabet {
    /// Exactly these characters; the other fields, except `printable`, are ignored.
    pub chars: String,
    /// Lower-case letters.
    pub lowercase: bool,
    /// Upper-case letters.
    pub uppercase: bool,
    /// Digits.
    pub digits: bool,
    /// Punctuation marks.
    pub punctuation: bool,
    /// White space.
    pub whitespace: bool,
    /// All of the above, whatever else is chosen.
    pub printable: bool,
}

impl Alphabet {
    fn characters(&self) -> Vec<char> {
        if !self.printable && !self.chars.is_empty() {
            return self.chars.chars().collect();
        }
        let sets = [
            (self.lowercase, LOWER),
            (self.uppercase, UPPER),
            (self.digits, DIGITS),
            (self.punctuation, PUNCTUATION),
            (self.whitespace, SPACE),
        ];
        let chosen = sets.iter().filter(|(chosen, _)| *chosen || self.printable);
        chosen.flat_map(|(_, set)| set.chars()).collect()
    }

    /// A password of this many characters; `None` if the alphabet is empty.
    pub fn password(&self, length: usize) -> Option<String> {
        let all = self.characters();
        let mut rng = rand::rngs::OsRng;
        if all.is_empty() && length > 0 {
            None
        } else {
            Some(
                (0..length)
                    .map(|_| all[rng.gen_range(0..all.len())])
                    .collect(),
            )
        }
    }
}
