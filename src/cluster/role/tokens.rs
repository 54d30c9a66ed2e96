//! Tokens of external authentication: those that one master has given are valid at all.
//!
//! They are told to those that hear, and again to a master that was away. None is stored on NATS, where it would outlive its time.

use super::{Cluster, Membership};
use crate::link::Channel;
use crate::pieces::{Foreign, Voice};
use halite_store::tokens::{Token, TokenDigest};
use halite_sys::time::unix_now_f64;
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// What it is about.
pub(super) const PURPOSE: &str = "token";
/// Bytes after which a message is full: what it is told in memory, not on the wire.
const FULL: usize = 1 << 20;
/// Most tokens that are told to a master that was away; meanwhile nothing else happens.
const MOST: usize = 10_000;

fn decode(bytes: &[u8]) -> Option<Vec<(TokenDigest, Token)>> {
    let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
    let tokens = map.get("tokens")?.as_map()?.iter();
    let one = |(digest, token): &(Value, Value)| {
        let digest = digest.as_str()?.parse().ok()?;
        Some((digest, Token::from_map(token.as_map()?)?))
    };
    tokens.map(one).collect()
}

impl Cluster<'_> {
    /// This master has created a token, or revoked it.
    pub(super) fn tell_token(&mut self, digest: TokenDigest) {
        self.tell_these_tokens(std::iter::once(digest));
    }

    /// Another master was away, or this one: tells all tokens.
    pub(super) fn tell_tokens(&mut self) {
        match self.stores.tokens.digests() {
            Ok(all) => {
                if all.len() > MOST {
                    log::warn!(
                        "cluster: {} tokens are too many: a master that was away does not get all",
                        all.len()
                    );
                }
                // Those that are revoked come first: they must not stay valid anywhere.
                let now = unix_now_f64();
                let tokens = &self.stores.tokens;
                let is_revoked = |digest: &TokenDigest| {
                    let token = tokens.by_digest(digest, now).ok().flatten();
                    token.is_some_and(|token| token.is_revoked)
                };
                let (revoked, valid): (Vec<_>, Vec<_>) = all.into_iter().partition(is_revoked);
                self.tell_these_tokens(revoked.into_iter().chain(valid.into_iter().take(MOST)));
            }
            Err(e) => log::error!("cluster: tokens cannot be told to the other masters: {e}"),
        }
    }

    fn tell_these_tokens(&mut self, digests: impl Iterator<Item = TokenDigest>) {
        if self.membership != Membership::Member {
            return;
        }
        let (mut tokens, mut size) = (Map::new(), 0);
        for digest in digests {
            match self.stores.tokens.by_digest(&digest, unix_now_f64()) {
                Ok(Some(token)) => {
                    let token = token.to_map();
                    size += msgpack::encode_map(&token, Profile::Local).len() + 100;
                    tokens.set(digest.as_str(), token);
                }
                // It has expired.
                Ok(None) => {}
                Err(e) => log::error!("cluster: a token cannot be told to the other masters: {e}"),
            }
            if size >= FULL {
                size = 0;
                self.tell_message(std::mem::take(&mut tokens));
            }
        }
        if !tokens.0.is_empty() {
            self.tell_message(tokens);
        }
    }

    fn tell_message(&mut self, tokens: Map) {
        let message = halite_wire::map! {"tokens" => tokens};
        let Some(Voice { teller, .. }) = self.peers.tokens() else {
            return;
        };
        let pieces = teller.seal(&msgpack::encode_map(&message, Profile::Local));
        let origin = teller.origin.clone();
        for piece in pieces.unwrap_or_default() {
            // Who does not hear it now is told again when it is back.
            self.link.tell(Channel::Tokens, origin.clone(), piece);
        }
    }

    /// Another master has told tokens.
    pub(super) fn heard_tokens(&mut self, origin: &str, bytes: &[u8]) {
        let Some(voice) = self.peers.tokens().filter(|voice| !voice.is_own(origin)) else {
            return;
        };
        match voice.open(origin, bytes) {
            Ok((_, opened)) => {
                for (digest, token) in opened.and_then(|all| decode(&all)).unwrap_or_default() {
                    if let Err(e) = self.stores.tokens.put(&digest, &token) {
                        log::error!("cluster: a token that another master told is not stored: {e}");
                    }
                }
            }
            Err(Foreign) => self.stranger(&format!("a message of token.{origin:.100}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let token = Token {
            start: 1.5,
            expire: 100.25,
            name: "fred".into(),
            eauth: "pam".into(),
            groups: vec!["wheel".into()],
            auth_list: Some(vec![".*".to_owned()].into()),
            is_revoked: true,
        };
        let digest = TokenDigest::of("abc");
        let message = |name: &str| {
            let tokens = halite_wire::map! {name => token.to_map()};
            msgpack::encode_map(&halite_wire::map! {"tokens" => tokens}, Profile::Local)
        };
        let told = decode(&message(digest.as_str()));
        assert_eq!(told, Some(vec![(digest, token.clone())]));
        assert_eq!(decode(&message("../../etc/passwd")), None);
    }
}
