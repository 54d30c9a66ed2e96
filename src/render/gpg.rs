//! The renderer `gpg`: decrypts blocks in texts (`salt/renderers/gpg.py`).
//!
//! The program `gpg` decrypts, with the key ring in `gpg_keydir`. Ciphertext goes in and plain text comes out
//! through pipes; neither is logged.

use super::functions::text_of;
use halite_config::RenderOptions;
use halite_crypto::HashType;
use halite_jinja::Obj;
use halite_sys::command::{Helper, HelperError, Output};
use halite_wire::Value;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const BEGIN: &[u8] = b"-----BEGIN PGP MESSAGE-----";
const END: &[u8] = b"-----END PGP MESSAGE-----";
/// Timeout for one block: an agent that waits for a pass phrase would wait forever.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Plain texts in the cache; it is cleared when there are more.
const MAX_CACHED: usize = 10_000;

/// Plain texts with the time of decryption, by the digest of their block.
type PlainTexts = HashMap<String, (Instant, Vec<u8>)>;

/// Decrypts pillar data from the command line with the renderer `pillar_enc`.
///
/// # Errors
/// See [`Gpg::decrypt_by`].
pub fn decrypt_given(
    options: &RenderOptions,
    given: &mut Value,
    pillar_enc: &str,
) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    let allowed = &options.decrypt_pillar_renderers;
    Gpg::new(options).decrypt_by(pillar_enc, allowed, given, true, deadline)
}

/// A key ring, and a cache of decrypted texts.
pub struct Gpg {
    homedir: PathBuf,
    must_succeed: bool,
    /// How long plain texts are cached; `None` disables the cache.
    ttl: Option<Duration>,
    known: RefCell<PlainTexts>,
}

impl Gpg {
    /// With the key ring of `options`. Nothing is run yet.
    pub fn new(options: &RenderOptions) -> Gpg {
        Gpg {
            homedir: options.gpg_home(),
            must_succeed: options.must_decrypt(),
            ttl: options
                .gpg_cache
                .then(|| Duration::from_secs(options.gpg_cache_ttl)),
            known: RefCell::default(),
        }
    }

    /// Decrypts `value` with the named renderer, which must be one of `allowed` unless that is empty
    /// (`salt/utils/crypt.py decrypt`).
    ///
    /// # Errors
    /// The renderer is not allowed or cannot decrypt, or see [`Self::decrypt`].
    pub fn decrypt_by(
        &self,
        renderer: &str,
        allowed: &[String],
        value: &mut Value,
        newlines: bool,
        deadline: Instant,
    ) -> Result<(), String> {
        if !allowed.is_empty() && !allowed.iter().any(|one| one == renderer) {
            return Err(format!(
                "'{renderer}' is not a valid decryption renderer. Valid choices are: {}",
                allowed.join(", ")
            ));
        }
        if renderer != "gpg" {
            return Err(format!("Decryption renderer '{renderer}' is not available"));
        }
        self.decrypt(value, newlines, deadline)
    }

    /// Decrypts all texts in `value` in place, except keys of maps. With `newlines`, a literal `\n` is a line
    /// break.
    ///
    /// # Errors
    /// A block cannot be decrypted and `gpg_decrypt_must_succeed` is on, or `gpg` is not installed. Values
    /// before it stay decrypted.
    pub fn decrypt(
        &self,
        value: &mut Value,
        newlines: bool,
        deadline: Instant,
    ) -> Result<(), String> {
        match value {
            Value::Str(text) if !newlines && find(text.as_bytes(), BEGIN).is_none() => Ok(()),
            Value::Str(text) => {
                *value = self.texts(text.as_bytes(), newlines, deadline)?;
                Ok(())
            }
            Value::Bytes(bytes) => {
                *value = self.texts(bytes, newlines, deadline)?;
                Ok(())
            }
            Value::Map(map) => {
                let mut values = map.0.iter_mut();
                values.try_for_each(|(_, value)| self.decrypt(value, newlines, deadline))
            }
            Value::Array(items) => {
                let mut items = items.iter_mut();
                items.try_for_each(|value| self.decrypt(value, newlines, deadline))
            }
            _ => Ok(()),
        }
    }

    /// Decrypts the blocks of a text. If there are any, trailing line breaks are removed; a result that is
    /// not UTF-8 stays bytes.
    fn texts(&self, given: &[u8], newlines: bool, deadline: Instant) -> Result<Value, String> {
        let unfolded = if newlines {
            unescape_newlines(given)
        } else {
            given.to_vec()
        };
        let mut rest = unfolded.as_slice();
        let mut out = Vec::new();
        let mut any = false;
        while let Some((before, block, after)) = next_block(rest) {
            out.extend_from_slice(before);
            out.extend(self.block(block, deadline)?);
            rest = after;
            any = true;
        }
        out.extend_from_slice(rest);
        while any && out.last() == Some(&b'\n') {
            out.pop();
        }
        Ok(match String::from_utf8(out) {
            Ok(text) => Value::Str(text),
            Err(e) => Value::Bytes(e.into_bytes()),
        })
    }

    fn block(&self, block: &[u8], deadline: Instant) -> Result<Vec<u8>, String> {
        let cipher = match std::str::from_utf8(block) {
            Ok(text) => unescape_newlines(text.as_bytes()),
            Err(_) => block.to_vec(),
        };
        let key = self.ttl.map(|ttl| (HashType::Sha256.hex(&cipher), ttl));
        if let Some((key, ttl)) = &key
            && let Some((at, plain)) = self.known.borrow().get(key)
            && at.elapsed() < *ttl
        {
            return Ok(plain.clone());
        }
        let why = match self.run(&cipher, deadline) {
            Ok(output) if is_decrypted(&output) => {
                if let Some((key, _)) = key {
                    self.store(key, &output.stdout);
                }
                return Ok(output.stdout);
            }
            Ok(output) => text_of_bytes(&output.stderr),
            Err(HelperError::Io(_, e)) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err("GPG unavailable".to_owned());
            }
            Err(e) => e.to_string(),
        };
        if self.must_succeed {
            let cipher = text_of_bytes(&cipher);
            return Err(format!(
                "Could not decrypt cipher {cipher}, received: {why}"
            ));
        }
        log::warn!("Could not decrypt a cipher, received: {why}");
        Ok(cipher)
    }

    fn store(&self, key: String, plain: &[u8]) {
        let mut known = self.known.borrow_mut();
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(key, (Instant::now(), plain.to_vec()));
    }

    fn run(&self, cipher: &[u8], deadline: Instant) -> Result<Output, HelperError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HelperError::TimedOut("gpg".into(), left));
        }
        remove_stale_locks(&self.homedir);
        let homedir = self.homedir.to_string_lossy();
        let helper = Helper {
            stdin: Some(cipher.to_vec()),
            ..Helper::new([
                "gpg",
                "--homedir",
                &homedir,
                "--status-fd",
                "2",
                "--no-tty",
                "-d",
            ])
        };
        helper.run(left.min(TIMEOUT))
    }
}

/// Whether `gpg` produced a plain text. Its exit code is also bad for a signature that it cannot check, which
/// is fine, but a message that was tampered with must be refused.
fn is_decrypted(output: &Output) -> bool {
    const BROKEN: &[u8] = b"[GNUPG:] DECRYPTION_FAILED";
    !output.stdout.is_empty() && find(&output.stderr, BROKEN).is_none()
}

fn text_of_bytes(bytes: &[u8]) -> String {
    Obj::from(&Value::Bytes(bytes.to_vec()))
        .repr()
        .unwrap_or_else(|_| text_of(&Value::Bytes(bytes.to_vec())))
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

/// The text before the first block, the block, and the text after it.
fn next_block(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let begin = find(text, BEGIN)?;
    let inside = begin + BEGIN.len();
    let end = inside + find(&text[inside..], END)? + END.len();
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

/// Replaces literal `\n` by line breaks.
fn unescape_newlines(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = find(rest, br"\n") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

/// Removes stale lock files, `.#lk<address>.<host>.<process>`, of a `gpg` that was killed
/// (`_cleanup_stale_lockfiles`).
fn remove_stale_locks(homedir: &Path) {
    let Ok(entries) = std::fs::read_dir(homedir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(".#lk"))
            .and_then(|rest| rest.rsplit_once('.'))
            .and_then(|(_, pid)| pid.parse::<i32>().ok())
            .filter(|pid| *pid > 0);
        let gone = process.is_some_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH));
        if gone && let Err(e) = std::fs::remove_file(entry.path()) {
            log::debug!("{}: {e}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let text =
            b"a-----BEGIN PGP MESSAGE-----x-----END PGP MESSAGE-----b-----END PGP MESSAGE-----";
        let (before, block, after) = next_block(text).unwrap();
        assert_eq!(before, b"a");
        assert!(block.starts_with(BEGIN) && block.ends_with(END));
        assert_eq!(after, b"b-----END PGP MESSAGE-----");
        assert!(next_block(after).is_none());
        assert!(next_block(b"-----BEGIN PGP MESSAGE----- no end").is_none());
        assert_eq!(unescape_newlines(br"a\nb\\nc"), b"a\nb\\\nc");
    }

    #[test]
    fn tampered_messages_are_refused() {
        let output = |stdout: &str, stderr: &str| Output {
            stdout: stdout.into(),
            stderr: stderr.into(),
            code: 2,
            pid: 0,
        };
        assert!(is_decrypted(&output(
            "text",
            "[GNUPG:] DECRYPTION_OKAY\n[GNUPG:] ERRSIG"
        )));
        assert!(!is_decrypted(&output(
            "text",
            "[GNUPG:] DECRYPTION_FAILED\n"
        )));
        assert!(!is_decrypted(&output("", "[GNUPG:] DECRYPTION_OKAY\n")));
    }

    #[test]
    fn stale_locks_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!(".#lk0x12.host.{}", std::process::id());
        // No process has this id.
        let stale = format!(".#lk0x12.host.name.{}", i32::MAX);
        for name in [own.as_str(), stale.as_str(), "pubring.kbx", ".#lkx"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        remove_stale_locks(dir.path());
        assert!(!dir.path().join(stale).exists());
        for name in [own.as_str(), "pubring.kbx", ".#lkx"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }
}
