//! What shows of an encrypted request without its worker: the command, and the authentication code.

use halite_config::MasterConfig;
use halite_crypto::{CipherKind, SessionCipher};
use halite_store::Stores;
use halite_store::sessions::SessionStore;
use halite_wire::envelope::{envelope_id, peek_cmd};
use halite_wire::ids::MinionId;
use std::collections::HashMap;
use std::sync::Arc;

/// Plaintext bytes decrypted to find the command: `pickle::`, a map header, `cmd` and, in an event load, `id`
/// with the longest usual id before it.
const PEEK: usize = 320;
/// Most cached session keys; when full, the cache is cleared.
const SESSIONS_HELD: usize = 20_000;

/// First 8 bytes of the authentication code, which is at the end of a load.
pub(super) fn mac_prefix(kind: CipherKind, load: &[u8]) -> u64 {
    let at = load.len().saturating_sub(kind.tag());
    load[at..]
        .iter()
        .take(8)
        .fold(0, |n, b| n << 8 | u64::from(*b))
}

/// Cached session keys.
pub(super) struct Sessions {
    store: Arc<dyn SessionStore>,
    held: HashMap<(CipherKind, MinionId), SessionCipher>,
}

impl Sessions {
    pub fn new(config: &MasterConfig) -> Sessions {
        Sessions {
            store: Stores::open(config).sessions,
            held: HashMap::new(),
        }
    }

    /// The command of an encrypted load, as far as its start shows. Only a hint for queueing: nothing is
    /// verified here.
    pub fn peek(&mut self, kind: CipherKind, id: Option<&str>, load: &[u8]) -> Option<String> {
        let session = (kind, envelope_id(id)?);
        if let Some(cmd) = self.held.get(&session).and_then(|c| command(c, load)) {
            return Some(cmd);
        }
        let cipher = SessionCipher::new(kind, &self.store.get(kind, &session.1).ok()??);
        let cmd = command(&cipher, load);
        if self.held.len() >= SESSIONS_HELD {
            self.held.clear();
        }
        self.held.insert(session, cipher);
        cmd
    }
}

fn command(cipher: &SessionCipher, load: &[u8]) -> Option<String> {
    let plain = cipher.peek_request(load, PEEK)?;
    peek_cmd(cipher.document(&plain)?).map(str::to_owned)
}
