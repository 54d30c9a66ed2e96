//! Which minion a subscriber of the TCP transport is: it says so in its first frame, an envelope under the publication key
//! with its id and the signature that every request has (`salt/transport/tcp.py PubServer._stream_read`; reference
//! `salt-transports.md` 1.2).

use halite_config::MasterConfig;
use halite_crypto::{Crypticle, IdentityPublic};
use halite_store::Stores;
use halite_store::keys::{KeyState, KeyStore};
use halite_wire::envelope::{Body, Envelope, envelope_id};
use halite_wire::ids::MinionId;
use halite_wire::topics::{self, BROADCAST, SYNDIC};
use std::sync::Arc;

/// Checks claims of subscribers.
pub(super) struct Registrar {
    keys: Arc<dyn KeyStore>,
    is_syndic_master: bool,
}

impl Registrar {
    pub fn new(config: &MasterConfig) -> Registrar {
        Registrar {
            keys: Stores::open(config).keys,
            is_syndic_master: config.order_masters,
        }
    }

    /// The topics of the minion that made a claim, sealed with one of `keys`; `None` if it was sealed with another one.
    /// The subscriber then stays unknown, and gets all publications, as it would over the other transports.
    ///
    /// After a restart of the master, every stock minion first sends a claim under the key that it had before, and no second
    /// one (reference 6). Closing its connection would make it register after the next sign-in, but now and then a stock
    /// 3007 then waits for ever for a sign-in that was in progress.
    ///
    /// # Errors
    /// Why the claim is refused. The connection must then be closed.
    pub fn topics<'k>(
        &self,
        claim: &[u8],
        mut keys: impl Iterator<Item = &'k Crypticle>,
    ) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        let envelope = Envelope::parse(claim).map_err(|_| "its first frame is no envelope")?;
        let Body::Sealed { load, .. } = envelope.body else {
            return Err("its first frame is not encrypted");
        };
        let Some(load) = keys.find_map(|key| key.loads(load, None).ok()) else {
            return Ok(None);
        };
        let load = load.as_map().ok_or("its first frame names no minion")?;
        let id = envelope_id(load.str("id")).ok_or("its first frame names no minion")?;
        let token = load.bytes("tok").ok_or("it does not prove its id")?;
        if !self.key(&id).is_some_and(|key| key.made_tok(token)) {
            return Err("its key is not the accepted one of its id");
        }
        let mut topics = vec![
            BROADCAST.into(),
            topics::of_minion(id.as_str()).into_bytes(),
            topics::private(id.as_str()).into_bytes(),
        ];
        if self.is_syndic_master {
            topics.push(SYNDIC.into());
        }
        Ok(Some(topics))
    }

    fn key(&self, id: &MinionId) -> Option<IdentityPublic> {
        let text = self.keys.get(KeyState::Accepted, id).ok()??;
        IdentityPublic::from_pem(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_crypto::{HashType, KeyString, PrivateKey};
    use halite_wire::tcp::Frame;
    use serde_json::Value as Json;

    struct Stock {
        key: Crypticle,
        claim: Vec<u8>,
        public: String,
    }

    fn stock() -> Vec<Stock> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/tcp.json");
        let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let series = file["series"].as_object().unwrap();
        let one = |vectors: &Json| {
            let text = |name: &str| vectors[name].as_str().unwrap().to_owned();
            let frame = text("id_frame");
            let frame: Vec<u8> = (0..frame.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&frame[i..i + 2], 16).unwrap())
                .collect();
            let private = PrivateKey::from_pem(&text("minion_private_pem")).unwrap();
            Stock {
                key: Crypticle::new(&KeyString::from_text(&text("aes")).unwrap()),
                claim: Frame::parse(&frame).unwrap().body.to_vec(),
                public: private.public().to_pem(),
            }
        };
        series.values().map(one).collect()
    }

    #[test]
    fn minions_of_all_series_are_who_they_say() {
        let all = stock();
        let other = Crypticle::new(&KeyString::generate());
        for (n, Stock { key, claim, public }) in all.iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().display().to_string();
            let options = halite_wire::map! {"root_dir" => root, "user" => "root"};
            let config = MasterConfig::from_map(options, dir.path()).unwrap();
            let keys = config.pki_dir.join("minions");
            std::fs::create_dir_all(&keys).unwrap();
            let registrar = Registrar::new(&config);
            let topics =
                |keys: &[&Crypticle], claim: &[u8]| registrar.topics(claim, keys.iter().copied());
            let refusal = |keys: &[&Crypticle], claim: &[u8]| topics(keys, claim).unwrap_err();
            assert!(refusal(&[key], claim).contains("not the accepted one"));
            let stranger = &all[(n + 1) % all.len()];
            std::fs::write(keys.join("m1"), &stranger.public).unwrap();
            assert!(refusal(&[key], claim).contains("not the accepted one"));
            std::fs::write(keys.join("m1"), public).unwrap();
            let own = HashType::Sha1.hex(b"m1");
            let expected = [
                "broadcast".to_owned(),
                own.clone(),
                format!("private:{own}"),
            ];
            assert_eq!(
                topics(&[&other, key], claim).unwrap().unwrap(),
                expected.map(String::into_bytes)
            );
            assert_eq!(topics(&[&other], claim), Ok(None));
            for broken in [
                &b"\xc0"[..],
                b"\x81\xa3enc\xa5clear",
                &claim[..claim.len() - 1],
            ] {
                refusal(&[key], broken);
            }
            for load in [
                halite_wire::Value::Nil,
                halite_wire::map! {"id" => "m1"}.into(),
                halite_wire::map! {"id" => "../m1", "tok" => vec![0; 256]}.into(),
            ] {
                let envelope = halite_wire::map! {"enc" => "aes", "load" => key.dumps(&load, None)};
                let claim = halite_wire::msgpack::encode_map(
                    &envelope,
                    halite_wire::msgpack::Profile::Wire,
                );
                refusal(&[key], &claim);
            }
        }
    }
}
