//! Key rings of `gpg`, and secrets for them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A home directory of `gpg` with its own key. Its agent is stopped when this is dropped.
pub struct KeyRing(pub PathBuf);

impl KeyRing {
    /// Creates the directory and the key `master`, which has no passphrase.
    pub fn new(dir: PathBuf) -> KeyRing {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let ring = KeyRing(dir);
        let make = ["--passphrase", "", "--quick-gen-key", "master"];
        ring.gpg(
            &[&make[..], &["future-default", "default", "never"]].concat(),
            b"",
        );
        ring
    }

    fn gpg(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gpg")
            .args(["--batch", "--quiet", "--homedir"])
            .arg(&self.0)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpg: {said}");
        output.stdout
    }

    /// An armored message for the key of this ring.
    pub fn encrypt(&self, plain: &[u8]) -> String {
        let args = [
            "--trust-model",
            "always",
            "--armor",
            "--encrypt",
            "-r",
            "master",
        ];
        String::from_utf8(self.gpg(&args, plain)).unwrap()
    }

    /// The same on one line, with `\n` for line ends.
    pub fn encrypt_folded(&self, plain: &[u8]) -> String {
        self.encrypt(plain).trim_end().replace('\n', "\\n")
    }

    /// Replaces `{{indent:NAME}}` by an encrypted block with one of the texts below, its lines indented
    /// by two; `{{folded:NAME}}` by one line with `\n` for line ends, and `{{broken}}` by a block that
    /// nobody can decrypt.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let plain: [(&str, &[u8]); 4] = [
            ("word", b"supersecret"),
            ("lines", b"two\nlines\n\n"),
            ("yaml", b"inner: {a: 1}"),
            ("bytes", b"caf\xe9"),
        ];
        for (name, plain) in plain {
            let block = self.encrypt(plain);
            let folded = block.trim_end().replace('\n', "\\n");
            text = text.replace(&format!("{{{{folded:{name}}}}}"), &folded);
            let indented = block.trim_end().replace('\n', "\n  ");
            text = text.replace(&format!("{{{{indent:{name}}}}}"), &indented);
            text = text.replace(&format!("{{{{plain:{name}}}}}"), block.trim_end());
        }
        let broken = "-----BEGIN PGP MESSAGE-----\n\nhF4D\n-----END PGP MESSAGE-----";
        text.replace("{{broken}}", &broken.replace('\n', "\n  "))
    }
}

impl Drop for KeyRing {
    fn drop(&mut self) {
        // Fails if the agent has already exited.
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(&self.0)
            .args(["--kill", "all"])
            .output();
    }
}
