//! The plugin PSK.

use super::*;

fn psk(secret: &str, caller: &str) -> Psk {
    let home = "mcollective".parse().unwrap();
    Psk::new(secret.as_bytes(), caller.parse().unwrap(), home)
}

#[test]
fn captures_are_verified_and_written_again() {
    let capture = capture(include_str!(
        "../../../../tests/vectors/collective/choria-psk-rabbitmq.json"
    ));
    let psk = psk(capture["psk"].as_str().unwrap(), "uid=0");
    let foreign = self::psk("another-psk", "uid=0");
    let (mut requests, mut replies) = (0, 0);
    for message in messages(&capture) {
        let data = base64_bytes(&message["marshal_base64"]);
        match message["kind"].as_str().unwrap() {
            "reply" => {
                let reply = psk.open_reply(&data).unwrap();
                let again = psk.seal_reply(&reply, Form::Psk, psk.caller()).unwrap();
                assert_eq!(psk.open_reply(&again).unwrap(), reply);
                assert_eq!(foreign.open_reply(&data), Err(Refused::Signature));
                replies += 1;
            }
            _ => {
                let (request, form) = psk.open_request(&data).unwrap();
                assert_eq!(form, Form::Psk);
                let again = psk.seal_request(&request).unwrap();
                assert_eq!(psk.open_request(&again).unwrap().0, request);
                assert_eq!(foreign.open_request(&data), Err(Refused::Signature));
                requests += 1;
            }
        }
    }
    assert_eq!((requests, replies), (27, 10));
}

#[test]
fn the_known_answer_of_mcollective() {
    let mut ping = request("uid=0");
    ping.body = "ping".into();
    let data = psk("throwaway-psk", "uid=0").seal_request(&ping).unwrap();
    let hash = b"a8b5d15549e02ee7fe5cf682293d441d";
    assert!(data.windows(32).any(|window| window == hash));
    let body = [
        4, 8, 0x49, 0x22, 9, 0x70, 0x69, 0x6e, 0x67, 6, 0x3a, 6, 0x45, 0x54,
    ];
    assert!(data.windows(14).any(|window| window == body));
}

#[test]
fn both_ends_agree_and_tampering_with_the_body_shows() {
    let secret = "a secret of some length";
    both_ways(&psk(secret, "uid=0"), &psk(secret, "uid=1"), envelope);
}

#[test]
fn what_has_no_hash_or_another_form_is_refused() {
    let one = psk("a secret of some length", "uid=0");
    let data = one.seal_request(&request("uid=0")).unwrap();
    // The hash under another name.
    let at = data
        .windows(4)
        .position(|window| window == b"hash")
        .unwrap();
    let mut bare = data.clone();
    bare[at..at + 4].copy_from_slice(b"hush");
    assert_eq!(one.open_request(&bare), Err(Refused::Unsigned));
    for other in [
        &b"{}"[..],
        b"",
        b"---\n:a: 1\n",
        b"\x04\x08",
        b"\x04\x08{\0",
    ] {
        assert!(one.open_request(other).is_err() && one.open_reply(other).is_err());
    }
    let form = Form::Ssl(Serializer::Yaml);
    assert!(one.seal_reply(&reply(), form, one.caller()).is_err());
}

#[test]
fn agent_and_caller_must_be_those_of_the_body() {
    let one = psk("a secret of some length", "uid=0");
    let asked = request("uid=0");
    let changed = |change: fn(&mut CoreRequest)| with_envelope(&one, &one, &asked, change);
    let root = changed(|core| core.caller = Some("uid=1000".parse().unwrap()));
    assert_eq!(root, Err(Refused::Tampered("caller")));
    let other = changed(|core| core.agent = "service".parse().unwrap());
    assert_eq!(other, Err(Refused::Tampered("agent")));
    // The rest is not protected, nor is anything around a bare body.
    let later = changed(|core| core.time += 3600).unwrap();
    assert_eq!(later.time, asked.time + 3600);
    let mut ping = asked.clone();
    ping.body = "ping".into();
    let somebody = with_envelope(&one, &one, &ping, |core| {
        core.caller = Some("uid=1000".parse().unwrap());
    });
    assert_eq!(somebody.unwrap().caller.as_str(), "uid=1000");
}
