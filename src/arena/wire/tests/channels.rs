//! Which channel a path refers to, and how channels are parsed.

use super::*;

fn channel(path: &str, topic: &str) -> Channel {
    Channel::new(path, Mode::ReadWrite, topic).unwrap()
}

fn resolved(channels: &[Channel], opened: &str) -> Option<String> {
    let (channel, topic) = Channel::resolve(channels, opened)?;
    Some(format!("{} {topic}", channel.path))
}

#[test]
fn a_path_below_a_channel_is_a_topic_below_its_topic() {
    let channels = [
        channel("light", "realm/kitchen/light"),
        channel("light/ceiling", "realm/ceiling"),
        channel("a/b", "x"),
    ];
    for (opened, meant) in [
        ("light", "light realm/kitchen/light"),
        ("light/status", "light realm/kitchen/light/status"),
        ("light/a/b", "light realm/kitchen/light/a/b"),
        ("/light/status", "light realm/kitchen/light/status"),
        ("light/", "light realm/kitchen/light"),
        ("/ch/light", "light realm/kitchen/light"),
        ("/ch/light/data", "light realm/kitchen/light"),
        ("ch/light/data", "light realm/kitchen/light"),
        ("/ch/light/status/data", "light realm/kitchen/light/status"),
        ("light/data", "light realm/kitchen/light/data"),
        ("light/ceiling", "light/ceiling realm/ceiling"),
        ("light/ceiling/on", "light/ceiling realm/ceiling/on"),
        ("light/ceiling2", "light realm/kitchen/light/ceiling2"),
        ("/ch/light/ceiling/data", "light/ceiling realm/ceiling"),
        ("a/b/c", "a/b x/c"),
    ] {
        assert_eq!(
            resolved(&channels, opened).as_deref(),
            Some(meant),
            "{opened}"
        );
    }
    for opened in [
        "",
        "/",
        "light2",
        "ligh",
        "a",
        "a/bc",
        "ch",
        "/ch/",
        "/ch/data",
        "data",
        "light/../a/b",
        "../light",
        "./light",
        "light/./x",
        "light//x",
        "light/+",
        "light/#",
        "light/x\0",
        "light\\x",
        "light/\n",
    ] {
        assert_eq!(resolved(&channels, opened), None, "{opened:?}");
    }
    let long = format!("light/{}", "x".repeat(300));
    assert_eq!(resolved(&channels, &long), None);
}

#[test]
fn a_channel_that_is_called_ch_comes_before_the_folder() {
    let channels = [
        channel("light", "l"),
        channel("ch", "c"),
        channel("ch", "second"),
    ];
    assert_eq!(
        resolved(&channels, "/ch/light/data").as_deref(),
        Some("ch c/light/data")
    );
    assert_eq!(resolved(&channels, "light").as_deref(), Some("light l"));
}

fn create(channels: Json) -> Json {
    request(
        "create",
        json!({"type": "module", "file": "x", "channels": channels}),
    )
}

fn first(channels: Json) -> Channel {
    let Body::Create(module) = read(create(channels)).body else {
        panic!("no create");
    };
    module.channels[0].clone()
}

#[test]
fn channels_of_browsers_are_the_same_as_those_of_the_draft() {
    let ours = first(json!([{"path": "default", "mode": "rw", "topic": "realm/s/default"}]));
    assert_eq!(ours, channel("default", "realm/s/default"));
    let theirs = first(
        json!([{"path": "/ch/default", "type": "pubsub", "mode": "rw", "params": {"topic": "realm/s/default"}}]),
    );
    assert_eq!(
        (&theirs.path, &theirs.topic, theirs.mode),
        (&ours.path, &ours.topic, ours.mode)
    );
    // Their own fields are passed on, for runtimes that know only these.
    assert_eq!(theirs.extra["params"]["topic"], "realm/s/default");
    let slashes = first(json!([{"path": "/light/", "mode": "r", "topic": "t"}]));
    assert_eq!(
        (
            slashes.path.as_str(),
            slashes.mode.reads(),
            slashes.mode.writes()
        ),
        ("light", true, false)
    );
    let both = first(json!([{"path": "a", "mode": "w", "topic": "t", "params": {"topic": "u"}}]));
    assert_eq!(
        (both.topic.as_str(), both.mode.reads(), both.mode.writes()),
        ("t", false, true)
    );
}

#[test]
fn bad_channels_are_refused_by_their_place() {
    let good = json!({"path": "light", "mode": "rw", "topic": "t"});
    for (key, value, path) in [
        ("path", json!("../x"), "path"),
        ("path", json!("a//b"), "path"),
        ("path", json!("/ch/"), "path"),
        ("path", json!(7), "path"),
        ("mode", json!("x"), "mode"),
        ("mode", json!("RW"), "mode"),
        ("topic", json!("realm/#"), "topic"),
        ("topic", json!("realm/+/x"), "topic"),
        ("topic", json!("$SYS/x"), "topic"),
        ("topic", json!("a\0b"), "topic"),
        ("topic", json!(["t"]), "topic"),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        let fault = refused(create(json!([good, bad])));
        let place = format!("data/channels/1/{path}");
        assert_eq!(
            (fault.trouble, fault.data),
            (Trouble::BadField, json!(place)),
            "{bad}"
        );
    }
    for key in ["path", "mode", "topic"] {
        let mut bad = good.clone();
        bad[key] = Json::Null;
        let fault = refused(create(json!([bad])));
        let place = format!("data/channels/0/{key}");
        assert_eq!(
            (fault.trouble, fault.data),
            (Trouble::MissingField, json!(place))
        );
    }
    let params = json!([{"path": "a", "mode": "r", "params": {"topic": "x/#"}}]);
    assert_eq!(refused(create(params)).data, "data/channels/0/params/topic");
    assert_eq!(refused(create(json!("light"))).data, "data/channels");
    assert_eq!(refused(create(json!(["light"]))).data, "data/channels/0");
}
