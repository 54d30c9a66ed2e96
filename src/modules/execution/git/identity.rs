//! Private keys for git (`identity`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use crate::files::{FileClient, GetFile};
use halite_wire::{Map, Value};
use std::path::Path;

/// The ssh command of stock's wrapper. It is read by a shell, which takes the identity from the environment.
pub const SSH: &str = "ssh -oStrictHostKeyChecking=no -oPasswordAuthentication=no \
                       -oKbdInteractiveAuthentication=no -oChallengeResponseAuthentication=no \
                       -i \"$GIT_IDENTITY\"";

/// Whether someone at the terminal can type a passphrase.
pub fn by_hand(call: &Call<'_>) -> bool {
    call.ctx
        .opts
        .str("__cli")
        .is_some_and(|cli| cli.contains("-call"))
}

/// A private key file; a temporary copy is removed on drop.
pub struct IdentityFile {
    /// Where it is.
    pub path: String,
    is_copy: bool,
}

impl Drop for IdentityFile {
    fn drop(&mut self) {
        if self.is_copy {
            // Leftovers are removed by the next cleanup of the directory.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl IdentityFile {
    /// A local file or a copy from the file server; `None` if it does not exist.
    ///
    /// # Errors
    /// The copy cannot be made.
    pub fn find(call: &mut Call<'_>, name: &str) -> Result<Option<IdentityFile>> {
        if !name.contains("salt://") {
            let is_copy = false;
            let path = name.to_owned();
            let there = Path::new(&python::expand_user(name)).is_file();
            return Ok(there.then_some(IdentityFile { path, is_copy }));
        }
        let path = python::str(&call.salt("temp.file", Vec::new(), Map::new())?);
        let key = IdentityFile {
            path: path.clone(),
            is_copy: true,
        };
        let saltenv = call.text("saltenv").unwrap_or_else(|| "base".to_owned());
        let client = FileClient::new(call.ctx)?;
        let got = client.get_file(&GetFile {
            dest: &path,
            ..GetFile::new(name, &saltenv)
        })?;
        if got.is_none() {
            return Ok(None);
        }
        let user = call.arg("user").clone();
        if user.truthy() {
            let args = vec![key.path.as_str().into(), user, Value::Nil];
            call.salt("file.chown", args, Map::new())?;
        }
        Ok(Some(key))
    }

    /// Whether it has a passphrase (`salt/utils/ssh.py key_is_encrypted`).
    ///
    /// # Errors
    /// It cannot be read, or is not a private key.
    pub fn is_encrypted(&self) -> Result<bool> {
        let content = std::fs::read(&self.path).map_err(|e| python::os_error(&e, &self.path))?;
        let text = String::from_utf8_lossy(&content);
        if text.contains("BEGIN ") && text.contains("PRIVATE KEY") {
            Ok(text.contains("ENCRYPTED"))
        } else {
            Err(CallError::Command(format!(
                "{} is not a private key",
                self.path
            )))
        }
    }
}
