//! Which minion a subscriber of the TCP transport is: it says so in its first frame, an envelope under the publication key
//! with its id and the signature that every request has (`salt/transport/tcp.py PubServer._stream_read`; reference
//! `salt-transports.md` 1.2).

use halite_config::MasterConfig;
use halite_crypto::{Crypticle, HashType, PublicKey};
use halite_store::Stores;
use halite_store::keys::{KeyState, KeyStore};
use halite_wire::envelope::{Body, Envelope, envelope_id};
use halite_wire::ids::MinionId;
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

    /// The topics of the minion that made a claim, sealed with one of `keys`.
    ///
    /// # Errors
    /// Why the claim is refused. The connection must then be closed, so that the minion signs in again: a stock minion that
    /// keeps it after a restart of the master does not hear jobs that name it (reference 6).
    pub fn topics<'k>(
        &self,
        claim: &[u8],
        mut keys: impl Iterator<Item = &'k Crypticle>,
    ) -> Result<Vec<Vec<u8>>, &'static str> {
        let envelope = Envelope::parse(claim).map_err(|_| "its first frame is no envelope")?;
        let Body::Sealed { load, .. } = envelope.body else {
            return Err("its first frame is not encrypted");
        };
        let load = keys.find_map(|key| key.loads(load, None).ok());
        let load = load.ok_or("it has another key for publications; it must sign in again")?;
        let load = load.as_map().ok_or("its first frame names no minion")?;
        let id = envelope_id(load.str("id")).ok_or("its first frame names no minion")?;
        let token = load.bytes("tok").ok_or("it does not prove its id")?;
        let recovered = self.key(&id).and_then(|key| key.x931_recover(token));
        if recovered.as_deref() != Some(b"salt".as_slice()) {
            return Err("its key is not the accepted one of its id");
        }
        let mut topics = vec![
            b"broadcast".to_vec(),
            HashType::Sha1.hex(id.as_str().as_bytes()).into_bytes(),
        ];
        if self.is_syndic_master {
            topics.push(b"syndic".to_vec());
        }
        Ok(topics)
    }

    fn key(&self, id: &MinionId) -> Option<PublicKey> {
        let text = self.keys.get(KeyState::Accepted, id).ok()??;
        PublicKey::from_pem(&text).ok()
    }
}
