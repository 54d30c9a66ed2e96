use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

const ISSUER: &str = "https://id.example.net";

fn settings(more: &str) -> Result<OidcSettings, String> {
    let text = format!("{{^issuer: {ISSUER:?}, ^client_id: halite{more}}}");
    let system = halite_wire::yaml::parse(&text).unwrap();
    OidcSettings::parse(system.as_map().unwrap())
}

/// The claims of a token for fred.
fn claims() -> Json {
    let now = unix_now();
    json!({
        "iss": ISSUER, "aud": "halite", "sub": "fred", "iat": now, "exp": now + 300, "groups": ["web", ""],
    })
}

fn with(name: &str, value: Json) -> Json {
    let mut claims = claims();
    claims[name] = value;
    claims
}

/// What a provider with a key on P-256 makes and tells.
struct Provider {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Provider {
    fn new() -> Provider {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Provider {
            pair: pair.unwrap(),
            random,
        }
    }

    fn key(&self, id: &str) -> Jwk {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let key = json!({
            "kty": "EC", "crv": "P-256", "kid": id, "x": B64.encode(x), "y": B64.encode(y),
        });
        serde_json::from_value(key).unwrap()
    }

    fn token(&self, header: &Json, claims: &Json) -> String {
        let part = |json: &Json| B64.encode(json.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signed = self.pair.sign(&self.random, message.as_bytes()).unwrap();
        format!("{message}.{}", B64.encode(signed))
    }
}

#[test]
fn settings_are_checked() {
    assert!(settings("").unwrap().username_claim == "sub");
    for (more, why) in [
        (", ^secret: x", "unknown setting ^secret"),
        (
            ", ^redirect_uri: 'http://master/x'",
            "must start with https://",
        ),
    ] {
        let said = settings(more).err().unwrap();
        assert!(said.contains(why), "{said}");
    }
    for text in ["{^client_id: a}", "{^issuer: 'http://a', ^client_id: a}"] {
        let system = halite_wire::yaml::parse(text).unwrap();
        assert!(
            OidcSettings::parse(system.as_map().unwrap()).is_err(),
            "{text}"
        );
    }
}

#[test]
fn names_of_groups_settings_and_everybody_are_no_users() {
    let settings = settings("").unwrap();
    for name in ["", "admins%", "^issuer", "*"] {
        assert!(settings.user_of(&json!({"sub": name})).is_err(), "{name}");
    }
    assert_eq!(
        settings.user_of(&json!({"sub": "fred"})).as_deref(),
        Ok("fred")
    );
    let by_mail = super::tests::settings(", ^username_claim: email").unwrap();
    let claims = |verified: Json| json!({"email": "f@example.net", "email_verified": verified});
    assert!(by_mail.user_of(&claims(true.into())).is_ok());
    assert!(by_mail.user_of(&claims(false.into())).is_err());
    assert!(by_mail.user_of(&claims("true".into())).is_err());
}

#[test]
fn only_fresh_tokens_of_this_provider_for_this_master_are_passwords() {
    let settings = settings("").unwrap();
    let now = unix_now();
    let check = |claims: &Json| check_claims(&settings, "fred", claims);
    assert_eq!(check(&claims()), Ok(()));
    assert_eq!(check(&with("aud", json!(["halite"]))), Ok(()));
    let mut both = with("aud", json!(["halite", "other"]));
    assert!(check(&both).is_err());
    both["azp"] = "halite".into();
    assert_eq!(check(&both), Ok(()));
    for wrong in [
        with("iss", "https://id.example.net/".into()),
        with("iss", json!([ISSUER])),
        with("aud", "other".into()),
        with("aud", Json::Null),
        with("azp", "other".into()),
        with("iat", (now - FRESH - LEEWAY - 5).into()),
        with("iat", (now + LEEWAY + 5).into()),
        with("iat", Json::Null),
        with("sub", "george".into()),
        with("sub", 1.into()),
    ] {
        assert!(check(&wrong).is_err(), "{wrong}");
    }
    assert_eq!(settings.groups_of(&claims()), ["web"]);
    assert_eq!(settings.groups_of(&with("groups", "one".into())), ["one"]);
    assert!(settings.groups_of(&with("groups", Json::Null)).is_empty());
}

#[test]
fn only_signatures_of_the_provider_count() {
    let (settings, provider, other) = (settings("").unwrap(), Provider::new(), Provider::new());
    let header = json!({"alg": "ES256", "kid": "1"});
    let keys = [other.key("0"), provider.key("1")];
    let proven = |token: &str| proven(&settings, token, &keys);
    let token = provider.token(&header, &claims());
    assert_eq!(proven(&token).unwrap()["sub"], "fred");
    // Without the id of a key, all are tried.
    assert!(proven(&provider.token(&json!({"alg": "ES256"}), &claims())).is_ok());
    let now = unix_now();
    for wrong in [
        other.token(&header, &claims()),
        other.token(&json!({"alg": "ES256", "kid": "2"}), &claims()),
        provider.token(&json!({"alg": "none"}), &claims()),
        // The public key as a shared secret, and a key of another kind.
        provider.token(&json!({"alg": "HS256", "kid": "1"}), &claims()),
        provider.token(&json!({"alg": "RS256", "kid": "1"}), &claims()),
        provider.token(&json!({"alg": "ES384", "kid": "1"}), &claims()),
        provider.token(&header, &with("exp", (now - LEEWAY - 5).into())),
        provider.token(&header, &with("exp", Json::Null)),
        provider.token(&header, &with("nbf", (now + LEEWAY + 5).into())),
        provider.token(&header, &with("aud", "other".into())),
        provider.token(&header, &with("iss", "https://elsewhere".into())),
        format!("{token}A"),
        token.rsplit_once('.').unwrap().0.to_owned() + ".",
        String::new(),
        "a.b.c".into(),
    ] {
        assert!(proven(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_on_curve_25519_are_known_too() {
    let settings = settings("").unwrap();
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": B64.encode(pair.public_key().as_ref())});
    let key: Jwk = serde_json::from_value(key).unwrap();
    let part = |json: &Json| B64.encode(json.to_string());
    let message = format!("{}.{}", part(&json!({"alg": "EdDSA"})), part(&claims()));
    let token = format!("{message}.{}", B64.encode(pair.sign(message.as_bytes())));
    assert!(proven(&settings, &token, std::slice::from_ref(&key)).is_ok());
    let changed = token.replace(&part(&claims()), &part(&with("sub", "george".into())));
    assert!(proven(&settings, &changed, &[key]).is_err());
}
