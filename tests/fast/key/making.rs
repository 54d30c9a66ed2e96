//! Key pairs and signatures.

use super::*;

#[test]
fn makes_key_pairs() {
    for (series, public_mode) in [("3006", 0o644), ("3008", 0o400)] {
        let f = Fixture::new(series);
        let ran = f.run(&[
            "--gen-keys",
            "new",
            "--gen-keys-dir",
            "ROOT/made",
            "--keysize",
            "2048",
        ]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(
            ran.stdout.starts_with("return:\n    ") && ran.stdout.len() == 12 + 95 + 1,
            "{}",
            ran.stdout
        );
        assert_eq!(
            (mode(f.path("made/new.pem")), mode(f.path("made/new.pub"))),
            (0o400, public_mode)
        );
        assert!(
            fs::read_to_string(f.path("made/new.pem"))
                .unwrap()
                .starts_with("-----BEGIN RSA PRIVATE KEY-----\n")
        );
        // A second time: the same pair.
        prints(
            &f,
            &["--gen-keys=new", "--gen-keys-dir=ROOT/made"],
            &ran.stdout,
        );
        assert_eq!(
            f.run(&["--gen-keys", "../up", "--gen-keys-dir", "ROOT/made"])
                .status,
            1
        );
    }
}

#[test]
fn signs_the_masters_key() {
    for (series, name, expected_mode) in [
        ("3006", "master_pubkey_signature", 0o644),
        ("3008", "hub_master_pubkey_signature", 0o400),
    ] {
        let f = Fixture::new(series);
        prints(
            &f,
            &["--gen-signature"],
            "return:\n    No usable private-key found\n",
        );
        prints(
            &f,
            &["--gen-signature", "--pub", "ROOT/none"],
            "return:\n    Public-key ROOT/none does not exist\n",
        );
        prints(
            &f,
            &["--gen-signature", "--priv", "ROOT/none"],
            "return:\n    Private-key ROOT/none does not exist\n",
        );
        prints(
            &f,
            &["--gen-signature", "--auto-create"],
            "return:\n    True\n",
        );
        assert_eq!(mode(f.pki(name)), expected_mode);
        assert_eq!(mode(f.pki("master_sign.pem")), 0o400);
        let ran = f.run(&["--gen-signature"]);
        assert_eq!(ran.stdout, "return:\n    False\n", "the file is there");
        assert!(ran.stderr.contains("remove it first"));
        use base64::Engine;
        use halite::crypto::{PublicKey, Signing, clean_key};
        let text = fs::read_to_string(f.pki(name)).unwrap();
        let signature = base64::engine::general_purpose::STANDARD
            .decode(text.trim())
            .unwrap();
        let signer =
            PublicKey::from_pem(&fs::read_to_string(f.pki("master_sign.pub")).unwrap()).unwrap();
        assert!(signer.verify(
            Signing::default(),
            clean_key(&pairs().master_public).as_bytes(),
            &signature
        ));
        f.config("master_pubkey_signature: own_name");
        prints(
            &f,
            &["--gen-signature", "--signature-path", "ROOT/there"],
            "return:\n    True\n",
        );
        assert_eq!(fs::read_to_string(f.path("there/own_name")).unwrap(), text);
    }
}
