//! The signer of a Choria request: verifies its certificate each time, and which caller ids it may use.

use super::names::Names;
use super::rsa::{self, Hash};
use super::x509::{Authority, Chain, Verified};
use crate::wire::{CallerId, Refused};
use halite_crypto::MAX_BITS;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of certificates whose verified chain is cached. Several kB each.
const KEPT: usize = 1024;
/// The kind in all caller ids of Choria.
const KIND: &str = "choria";

/// The CA and names that a network of Choria trusts.
pub(super) struct Trust {
    authority: Authority,
    callers: Names,
    privileged: Names,
    kept: Mutex<VerifiedChains>,
}

/// Verified chains, by fingerprint of their whole text. Names are not used as keys: an entry for one certificate does not
/// apply to another one of the same name.
#[derive(Default)]
struct VerifiedChains {
    by_print: HashMap<[u8; 32], Arc<Verified>>,
    order: VecDeque<[u8; 32]>,
}

impl Trust {
    /// Trusts certificates issued by the CA: `callers` may call under their names, `privileged` under any name.
    pub fn new(authority: Authority, callers: Names, privileged: Names) -> Trust {
        Trust {
            authority,
            callers,
            privileged,
            kept: Mutex::default(),
        }
    }

    /// The certificate of a message, if it was issued by the CA, is valid at `now`, and its key signed the message.
    ///
    /// # Errors
    /// Limits, chain or signature.
    pub fn signer(
        &self,
        message: &[u8],
        signature: &[u8],
        certificate: &str,
        now: i64,
    ) -> Result<Arc<Verified>, Refused> {
        if signature.is_empty() {
            return Err(Refused::Unsigned);
        }
        if signature.len() > MAX_BITS / 8 {
            return Err(Refused::TooLarge("bytes of a signature"));
        }
        let signer = self.certificate(certificate, now)?;
        if rsa::verify(&signer.key, Hash::Sha256, message, signature) {
            Ok(signer)
        } else {
            Err(Refused::Signature)
        }
    }

    /// Checks that the owner of a certificate may use this caller id: its name is in the certificate and in the list of
    /// callers, or the certificate is privileged.
    ///
    /// # Errors
    /// [`Refused::Caller`] and why.
    pub fn may_call(&self, signer: &Verified, caller: &CallerId) -> Result<(), Refused> {
        if caller.kind() != KIND {
            return Err(Refused::Caller(format!(
                "{caller} is not of the kind {KIND}=<name>"
            )));
        }
        if signer.names.iter().any(|name| self.privileged.has(name)) {
            return Ok(());
        }
        let names = || signer.names.join(", ");
        if !signer.names.iter().any(|name| name == caller.name()) {
            let why = format!("{caller}, but the certificate is of {}", names());
            return Err(Refused::Caller(why));
        }
        if self.callers.has(caller.name()) {
            Ok(())
        } else {
            Err(Refused::Caller(format!("{caller} is not in `callers`")))
        }
    }

    /// The certificate, if it was issued by the CA and is valid at `now`.
    fn certificate(&self, text: &str, now: i64) -> Result<Arc<Verified>, Refused> {
        let print: [u8; 32] = Sha256::digest(text).into();
        if let Some(kept) = self.kept().by_print.get(&print)
            && (kept.not_before..kept.not_after).contains(&now)
        {
            return Ok(kept.clone());
        }
        // Not under the lock, so that others need not wait.
        let verified = Arc::new(Chain::from_pem(text)?.verify(&self.authority, now)?);
        self.kept().insert(print, verified.clone());
        Ok(verified)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VerifiedChains> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VerifiedChains {
    /// Called only for verified chains, so that strangers cannot evict entries.
    fn insert(&mut self, print: [u8; 32], verified: Arc<Verified>) {
        if self.by_print.insert(print, verified).is_some() {
            return;
        }
        self.order.push_back(print);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_print.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CertificateSpec, DAY, NOW, Pair};
    use super::*;

    struct Network {
        ca: Pair,
        trust: Trust,
    }

    fn network() -> Network {
        let ca = Pair::ca("CA");
        let trust = Trust::new(
            Authority::from_pem(&ca.pem()).unwrap(),
            Names::new(&[r"/\.mcollective$/", r"/\.choria$/"]).unwrap(),
            Names::new(&[r"/\.privileged\.mcollective$/"]).unwrap(),
        );
        Network { ca, trust }
    }

    impl Network {
        fn call(&self, pair: &Pair, caller: &str, now: i64) -> Result<(), Refused> {
            let signature = rsa::sign(&pair.private(), Hash::Sha256, b"text").unwrap();
            let signer = self.trust.signer(b"text", &signature, &pair.pem(), now)?;
            self.trust.may_call(&signer, &caller.parse().unwrap())
        }

        fn kept(&self) -> usize {
            self.trust.kept().by_print.len()
        }
    }

    fn is_caller(result: Result<(), Refused>) -> bool {
        matches!(result, Err(Refused::Caller(_)))
    }

    #[test]
    fn callers_are_who_their_certificate_names() {
        let network = network();
        let rip = network.ca.sign("rip.mcollective");
        for _ in 0..2 {
            assert_eq!(network.call(&rip, "choria=rip.mcollective", NOW), Ok(()));
        }
        for other in [
            "choria=bob.mcollective",
            "cert=rip.mcollective",
            "choria=rip",
            "choria=RIP.mcollective",
        ] {
            assert!(is_caller(network.call(&rip, other, NOW)), "{other}");
        }
        let node = network.ca.sign("node1.example");
        assert!(is_caller(network.call(&node, "choria=node1.example", NOW)));
        assert!(is_caller(network.call(
            &node,
            "choria=rip.mcollective",
            NOW
        )));
        // By an alternative name, which must be in the list itself.
        let dns = &["alice.choria"];
        let both = CertificateSpec {
            name: "node2.example",
            dns,
            ..CertificateSpec::default()
        };
        let both = both.by(Some(&network.ca));
        assert_eq!(network.call(&both, "choria=alice.choria", NOW), Ok(()));
        assert!(is_caller(network.call(&both, "choria=node2.example", NOW)));
    }

    #[test]
    fn privileged_ones_speak_for_all_and_leave_nothing_behind() {
        let network = network();
        let boss = network.ca.sign("boss.privileged.mcollective");
        assert_eq!(network.call(&boss, "choria=alice.mcollective", NOW), Ok(()));
        assert_eq!(network.call(&boss, "choria=unlisted", NOW), Ok(()));
        assert!(is_caller(network.call(&boss, "cert=alice", NOW)));
        // The real one is accepted afterwards, and only under her own name.
        let alice = network.ca.sign("alice.mcollective");
        assert_eq!(
            network.call(&alice, "choria=alice.mcollective", NOW),
            Ok(())
        );
        assert!(is_caller(network.call(
            &alice,
            "choria=rip.mcollective",
            NOW
        )));
    }

    #[test]
    fn a_reissued_certificate_is_good_at_once() {
        let network = network();
        let old = network.ca.sign("rip.mcollective");
        assert_eq!(network.call(&old, "choria=rip.mcollective", NOW), Ok(()));
        let new = network.ca.sign("rip.mcollective");
        assert_eq!(network.call(&new, "choria=rip.mcollective", NOW), Ok(()));
        assert_eq!(network.kept(), 2);
        // One of another CA of the same name is not.
        let foreign = Pair::ca("CA").sign("rip.mcollective");
        let refused = network.call(&foreign, "choria=rip.mcollective", NOW);
        assert!(matches!(refused, Err(Refused::Certificate(_))));
        assert_eq!(network.kept(), 2);
    }

    #[test]
    fn what_is_kept_expires() {
        let network = network();
        let rip = network.ca.sign("rip.mcollective");
        assert_eq!(network.call(&rip, "choria=rip.mcollective", NOW), Ok(()));
        for now in [NOW + DAY, NOW - DAY - 1] {
            let refused = network.call(&rip, "choria=rip.mcollective", now);
            assert!(matches!(refused, Err(Refused::Certificate(_))), "{now}");
        }
    }

    #[test]
    fn the_key_of_the_certificate_must_have_signed() {
        let network = network();
        let rip = network.ca.sign("rip.mcollective");
        let bob = network.ca.sign("bob.mcollective");
        let by_bob = rsa::sign(&bob.private(), Hash::Sha256, b"text").unwrap();
        let signer = |message: &[u8], signature: &[u8]| {
            let signer = network.trust.signer(message, signature, &rip.pem(), NOW);
            signer.map(|_| ()).unwrap_err()
        };
        assert_eq!(signer(b"text", &by_bob), Refused::Signature);
        let mut by_rip = rsa::sign(&rip.private(), Hash::Sha256, b"text").unwrap();
        assert_eq!(signer(b"text ", &by_rip), Refused::Signature);
        by_rip.push(0);
        assert_eq!(signer(b"text", &by_rip), Refused::Signature);
        assert_eq!(signer(b"text", b""), Refused::Unsigned);
        let long = signer(b"text", &[0; MAX_BITS / 8 + 1]);
        assert_eq!(long, Refused::TooLarge("bytes of a signature"));
        let bare = network.trust.signer(b"text", &by_bob, "", NOW);
        assert!(matches!(bare, Err(Refused::Certificate(_))));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = VerifiedChains::default();
        let ca = Pair::ca("CA");
        let chain = Chain::from_pem(&ca.sign("rip.mcollective").pem()).unwrap();
        let authority = Authority::from_pem(&ca.pem()).unwrap();
        let verified = Arc::new(chain.verify(&authority, NOW).unwrap());
        for number in 0..2 * KEPT as u64 {
            let print: [u8; 32] = Sha256::digest(number.to_be_bytes()).into();
            kept.insert(print, verified.clone());
            kept.insert(print, verified.clone());
        }
        assert_eq!((kept.by_print.len(), kept.order.len()), (KEPT, KEPT));
    }
}
