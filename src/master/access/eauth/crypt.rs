//! Hashed passwords: the formats of htpasswd and of `crypt(3)`. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use halite_crypto::{HashType, constant_time_eq};
use md5::{Digest, Md5};
use sha1::Sha1;

/// Most rounds of SHA-crypt and highest cost of bcrypt that are accepted: a file must not keep a worker busy
/// for minutes.
const MOST_ROUNDS: u32 = 1_000_000;
const HIGHEST_COST: u32 = 14;

/// A hash that cannot be verified, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableHash(pub String);

/// Verifies a password against a hash: `$apr1$`, `$1$`, `$2a$`/`$2b$`/`$2y$` (bcrypt), `$5$`, `$6$` (SHA-crypt)
/// or `{SHA}`. Plain text and DES are refused.
///
/// # Errors
/// The format is unsupported or too expensive.
pub fn verify(password: &str, hash: &str) -> Result<bool, UnusableHash> {
    let unusable = |why: &str| UnusableHash(why.to_owned());
    if let Some(digest) = hash.strip_prefix("{SHA}") {
        let own = STANDARD.encode(Sha1::digest(password));
        return Ok(constant_time_eq(own.as_bytes(), digest.as_bytes()));
    }
    let Some((scheme, rest)) = hash.strip_prefix('$').and_then(|h| h.split_once('$')) else {
        return Err(unusable(
            "the password is not hashed, or hashed with DES; use `htpasswd -B` or `openssl passwd -6`",
        ));
    };
    match scheme {
        "apr1" | "1" => {
            let (salt, _) = rest.split_once('$').ok_or(unusable("it has no salt"))?;
            let own = md5_crypt(password.as_bytes(), salt.as_bytes(), scheme);
            Ok(constant_time_eq(own.as_bytes(), hash.as_bytes()))
        }
        "2a" | "2b" | "2y" => {
            let cost = rest.split('$').next().and_then(|c| c.parse().ok());
            match cost {
                Some(4..=HIGHEST_COST) => {
                    bcrypt::verify(password, hash).map_err(|e| UnusableHash(format!("bcrypt: {e}")))
                }
                _ => Err(unusable("its bcrypt cost is not between 4 and 14")),
            }
        }
        "5" | "6" => {
            let rounds = match rest.strip_prefix("rounds=") {
                None => Some(5000),
                Some(rest) => rest.split('$').next().and_then(|r| r.parse().ok()),
            };
            if rounds.is_none_or(|r: u32| r > MOST_ROUNDS) {
                return Err(unusable("it has more than a million rounds"));
            }
            let checked = match scheme {
                "5" => sha_crypt::sha256_check(password, hash),
                _ => sha_crypt::sha512_check(password, hash),
            };
            Ok(checked.is_ok())
        }
        other => Err(UnusableHash(format!(
            "the hash ${other}$ is not supported; use $2y$ (bcrypt), $6$, $5$, $apr1$ or {{SHA}}"
        ))),
    }
}

/// Verifies an unsalted hex digest of a password (`^hashtype` of text files).
pub fn verify_digest(password: &str, digest: &str, hash: HashType) -> bool {
    let own = hash.hex(password.as_bytes());
    constant_time_eq(own.as_bytes(), digest.to_ascii_lowercase().as_bytes())
}

/// MD5-crypt of Apache (`apr1`) and BSD (`1`), which differ only in the scheme name.
fn md5_crypt(password: &[u8], salt: &[u8], scheme: &str) -> String {
    let salt = &salt[..salt.len().min(8)];
    let sign = format!("${scheme}$");
    let inner = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut outer = Md5::new()
        .chain_update(password)
        .chain_update(&sign)
        .chain_update(salt);
    for part in password.chunks(16) {
        outer.update(&inner[..part.len()]);
    }
    let mut length = password.len();
    while length > 0 {
        match length & 1 {
            1 => outer.update([0]),
            _ => outer.update(&password[..1]),
        }
        length >>= 1;
    }
    let mut sum = outer.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        let odd = round % 2 == 1;
        next.update(if odd { password } else { &sum[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &sum[..] } else { password });
        sum = next.finalize();
    }
    let salt = String::from_utf8_lossy(salt);
    format!("{sign}{salt}${}", crypt64(&sum))
}

/// Encodes with the alphabet and byte order of MD5-crypt (`crypt(3)`).
fn crypt64(sum: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = String::new();
    let mut put = |mut bits: u32, digits: usize| {
        for _ in 0..digits {
            out.push(char::from(DIGITS[(bits & 63) as usize]));
            bits >>= 6;
        }
    };
    for [a, b, c] in ORDER {
        let bits = u32::from(sum[a]) << 16 | u32::from(sum[b]) << 8 | u32::from(sum[c]);
        put(bits, 4);
    }
    put(u32::from(sum[11]), 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "ein recht langes Passwort mit Leerzeichen";

    /// Generated with `openssl passwd` and glibc's `crypt`.
    #[rustfmt::skip]
    const KNOWN: [(&str, &str); 12] = [
        ("geheim", "$apr1$abcdefgh$bw9gEObk10asetVLiysIZ0"),
        ("geheim", "$1$abcdefgh$eKehL.s8tG6zTf8hBtmEF."),
        ("geheim", "$5$abcdefgh$azU9PNNJw9essBuwq5yihWY9lFXM0dF54Ph4sAxX.YB"),
        ("geheim", "$6$abcdefgh$msgktWxVAbjjh3X7lA5LaM7dS/ZfABJL6T4qcRsnjcOTj0kptUvZcrvrXIoO5fgPA9xz6UnF2To2Y7jGc/IZY/"),
        ("geheim", "$6$rounds=1400$anotherlongsalt$c76Z0mPZmPlIg6eV/O14OsI55RfQqtvBhASJrFkPOPfP0owIMU2SxPsCPALDpIA9xe0z6.zrf1Y2TIqfjRDag/"),
        ("geheim", "$2b$04$EWijeA0rZzcHNbrhgvWFsuRWCg.RppBvkhZdDDamaSIwyrtodL60i"),
        ("geheim", "{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk="),
        (LONG, "$apr1$abcdefgh$fKRBwsCnzreNtYGLOkrWP/"),
        (LONG, "$1$abcdefgh$My0FW.MsxhcnUuEkjNgRJ/"),
        (LONG, "$5$abcdefgh$G5trld4hSlGdtVVsdbTQBR3eOj.XoMVfpXtXcr2bfX9"),
        (LONG, "$6$abcdefgh$O2b5hZ0GtDyzAybnuil10t/Qd.5ySS7gz10NnJiAldMGD3yoKeCgPLSUHTkxJiSHGkrIXUJDYBvImOK/H92XK/"),
        (LONG, "{SHA}RnUVbIWFQLqM9H8Y3BOdokLc06U="),
    ];

    #[test]
    fn known_hashes() {
        for (password, hash) in KNOWN {
            assert_eq!(verify(password, hash), Ok(true), "{hash}");
            assert_eq!(verify("Geheim", hash), Ok(false), "{hash}");
            assert_eq!(verify("", hash), Ok(false), "{hash}");
        }
    }

    #[test]
    fn what_is_refused() {
        for hash in [
            "geheim",
            "",
            "rl3xAvK1iLsUw",
            "$y$j9T$x$y",
            "$2y$31$abc",
            "$2y$",
            "$apr1$",
            "$1$",
            "$6$rounds=99999999$x$y",
            "$6$rounds=x$x$y",
            "$6$abc",
            "$$",
            "$6",
        ] {
            assert!(!matches!(verify("geheim", hash), Ok(true)), "{hash}");
        }
        assert!(
            verify("geheim", "geheim")
                .unwrap_err()
                .0
                .contains("not hashed")
        );
    }

    #[test]
    fn digests_without_salt() {
        let sha = HashType::Sha256.hex(b"geheim");
        assert!(verify_digest("geheim", &sha, HashType::Sha256));
        assert!(verify_digest(
            "geheim",
            &sha.to_uppercase(),
            HashType::Sha256
        ));
        assert!(!verify_digest("x", &sha, HashType::Sha256));
        assert!(!verify_digest("geheim", &sha, HashType::Sha512));
    }
}
