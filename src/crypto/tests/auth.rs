//! Replies to `_auth` and `_pillar` of three Salt series, opened as a minion does.

use super::*;
use halite_wire::msgpack;

on_each_backend!(
    auth_replies,
    pillar_replies,
    signed_publications,
    signed_returns
);

fn auth_replies<B: Backend>() {
    let (_, master) = pair::<B>("master");
    let (minion, _) = pair::<B>("minion");
    for series in ["3006", "3007", "3008"] {
        let file = vectors(&format!("auth-{series}"));
        let mut accepted = 0;
        for v in list(&file).iter().filter(|v| v["reply"]["sig"].is_object()) {
            let request = &v["request"]["load"];
            let signing: Signing = text(&request["sig_algo"]).parse().unwrap();
            let load = unhex(&v["reply"]["load"]["hex"]);
            let signature = unhex(&v["reply"]["sig"]["hex"]);
            assert!(
                master.verify(signing, &load, &signature),
                "{series} {}",
                v["name"]
            );

            let inner = &v["reply_signed_load"];
            if !inner["aes"].is_object() {
                continue;
            }
            accepted += 1;
            let encryption: Encryption = text(&request["enc_algo"]).parse().unwrap();
            let open = |field: &Json| minion.decrypt(encryption, &unhex(&field["hex"])).unwrap();
            let aes = open(&inner["aes"]);
            assert_eq!(aes, text(&file["aes_key_string"]).as_bytes());
            assert_eq!(
                open(&inner["session"]),
                text(&file["session_key_string"]).as_bytes()
            );
            if inner["token"].is_object() {
                assert_eq!(
                    open(&inner["token"]),
                    text(&file["minion_token"]).as_bytes()
                );
            }
            let digest = master.x931_recover(&unhex(&inner["sig"]["hex"])).unwrap();
            assert_eq!(digest, HashType::Sha256.hex(&aes).as_bytes());
        }
        assert_eq!(accepted, 3, "{series}");
    }
}

fn pillar_replies<B: Backend>() {
    let (_, master) = pair::<B>("master");
    let (minion, _) = pair::<B>("minion");
    for v in list(&vectors("pillar")) {
        let key = unhex(&v["reply_fields"]["key"]["hex"]);
        let key = minion.decrypt(Encryption::default(), &key).unwrap();
        let key = KeyString::from_text(std::str::from_utf8(&key).unwrap()).unwrap();
        assert_eq!(key.as_str(), text(&v["reply_inner_key_string"]));
        let sealed = unhex(&v["reply_fields"]["pillar"]["hex"]);
        let inner = Crypticle::new(&key).loads(&sealed, None).unwrap();
        let inner = inner.as_map().unwrap();
        let (data, signature) = (inner.bytes("data").unwrap(), inner.bytes("sig").unwrap());
        assert_eq!(data, unhex(&v["reply_signed_data_hex"]));
        assert!(master.verify(Signing::default(), data, signature));
    }
}

fn signed_publications<B: Backend>() {
    let (private, public) = pair::<B>("master");
    let mut seen = 0;
    for v in list(&vectors("publication")) {
        let frame = &v["frame"];
        if !frame["sig"].is_object() {
            continue;
        }
        let algorithm: Signing = text(&frame["sig_algo"]).parse().unwrap();
        let load = unhex(&frame["load"]["hex"]);
        let signature = unhex(&frame["sig"]["hex"]);
        assert!(public.verify(algorithm, &load, &signature));
        assert_eq!(private.sign(algorithm, &load), signature);
        seen += 1;
    }
    assert_eq!(seen, 2);
}

fn signed_returns<B: Backend>() {
    let (private, public) = pair::<B>("minion");
    let v = vectors("minion-signed-return");
    let algorithm: Signing = text(&v["sig_algorithm"]).parse().unwrap();
    let (data, signature) = (unhex(&v["to_sign_hex"]), unhex(&v["sig_hex"]));
    assert_eq!(private.sign(algorithm, &data), signature);
    assert!(public.verify(algorithm, &data, &signature));

    let key = KeyString::from_text(text(&v["session_key_string"])).unwrap();
    let request = msgpack::decode(&unhex(&v["request_hex"])).unwrap();
    let load = request.as_map().unwrap().bytes("load").unwrap();
    let load = Crypticle::new(&key).loads(load, None).unwrap();
    let tok = load.as_map().unwrap().bytes("tok").unwrap();
    assert_eq!(public.x931_recover(tok).as_deref(), Some(&b"salt"[..]));
}
