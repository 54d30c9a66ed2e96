//! How masters seal what they tell each other again and again: with AES-256-GCM, under a key of its sender and that
//! sender's start, bound to the bucket and to what it is.

use crate::record::{text_of, token};
use halite_crypto::{ClusterSecret, Gcm, random_hex};
use std::collections::HashMap;

/// Most starts of masters that are remembered.
const MOST_STARTS: usize = 64;

/// A name for this start of the master `id`, as the end of a subject: the id, and a random mark.
pub fn new_origin(id: &str) -> String {
    format!("{}.{}", token(id), random_hex(8))
}

/// The id of the master with this origin.
pub fn sender(origin: &str) -> Option<String> {
    let (id, start) = origin.split_once('.')?;
    let is_mark = !start.is_empty() && start.bytes().all(|b| b.is_ascii_hexdigit());
    is_mark.then(|| text_of(id)).flatten()
}

/// A key and the place for which it seals.
pub struct Seal {
    key: Gcm,
    place: Vec<u8>,
}

impl Seal {
    /// For what one start of a master tells about `purpose`, in the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str, purpose: &str, origin: &str) -> Seal {
        Seal {
            key: secret.seal(&format!("{purpose} {origin}")),
            place: place(mark, purpose, origin),
        }
    }

    /// Seals a message.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        self.key.seal(&self.place, plain)
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.key.open(&self.place, sealed).ok()
    }
}

/// The associated data of a message about `purpose`, with this end of its subject.
pub fn place(mark: &str, purpose: &str, tail: &str) -> Vec<u8> {
    format!("{mark}\0{purpose}\0{tail}").into_bytes()
}

/// Opens what others tell, and remembers something about each of their starts.
pub struct Peers<T> {
    secret: ClusterSecret,
    mark: String,
    purpose: &'static str,
    starts: HashMap<String, (Seal, T)>,
}

impl<T: Default> Peers<T> {
    /// Of the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str, purpose: &'static str) -> Peers<T> {
        Peers {
            secret: secret.clone(),
            mark: mark.to_owned(),
            purpose,
            starts: HashMap::new(),
        }
    }

    /// The content of a message, and what is remembered of its origin; `None` if no master of the cluster has sealed it. If there
    /// are too many origins, those that are not to be kept are forgotten.
    pub fn open(
        &mut self,
        origin: &str,
        sealed: &[u8],
        is_to_be_kept: fn(&T) -> bool,
    ) -> Option<(&mut T, Vec<u8>)> {
        let plain = match self.starts.get(origin) {
            Some((seal, _)) => seal.open(sealed)?,
            None => {
                let seal = Seal::new(&self.secret, &self.mark, self.purpose, origin);
                let plain = seal.open(sealed)?;
                // Only masters get here: nobody else can make others be forgotten.
                if self.starts.len() >= MOST_STARTS {
                    self.starts.retain(|_, (_, known)| is_to_be_kept(known));
                }
                self.starts.insert(origin.to_owned(), (seal, T::default()));
                plain
            }
        };
        let (_, known) = self.starts.get_mut(origin)?;
        Some((known, plain))
    }

    /// What is remembered of all.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.starts.values().map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_a_sender() {
        assert_eq!(sender(&new_origin("m.1")), Some("m.1".to_owned()));
        for wrong in ["", "m1", "m1.", ".ab", "m1.xy", "m=1.ab"] {
            assert_eq!(sender(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_else_makes_others_be_forgotten() {
        let secret = ClusterSecret::new(&"a".repeat(32), "c").unwrap();
        let told = |origin: &str| Seal::new(&secret, "mark", "log", origin).seal(b"x");
        let mut peers: Peers<u64> = Peers::new(&secret, "mark", "log");
        let (number, plain) = peers.open("m1.a", &told("m1.a"), |_| false).unwrap();
        assert_eq!((*number, plain.as_slice()), (0, b"x".as_slice()));
        *number = 5;
        for n in 0..2 * MOST_STARTS {
            let sealed = told("m1.a");
            assert!(
                peers
                    .open(&format!("m2.{n:x}"), &sealed, |_| false)
                    .is_none()
            );
        }
        assert_eq!(peers.all().collect::<Vec<_>>(), [&5]);
        for n in 0..MOST_STARTS {
            let origin = format!("m2.{n:x}");
            let sealed = told(&origin);
            peers.open(&origin, &sealed, |number| *number > 0).unwrap();
        }
        assert_eq!(peers.all().filter(|number| **number == 5).count(), 1);
    }
}
