//! Topics of both schemes.

use super::*;

fn id(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn draft() -> Topics {
    Topics::new("org/site", Scheme::Draft).unwrap()
}

fn scene() -> Topics {
    let namespace = "public".into();
    Topics::new("realm", Scheme::Scene { namespace }).unwrap()
}

#[test]
fn all_spellings_of_the_draft_are_known() {
    for (topic, place) in [
        ("reg", Place::Reg(None)),
        ("reg/", Place::Reg(None)),
        ("reg/u1", Place::Reg(Some(id("u1")))),
        ("reg/u1/", Place::Reg(Some(id("u1")))),
        ("keepalive", Place::Keepalive(None)),
        ("keepalive/u1", Place::Keepalive(Some(id("u1")))),
        ("control", Place::Control(None)),
        ("control/", Place::Control(None)),
        ("control/u1", Place::Control(Some(id("u1")))),
        ("stdio/m", Place::Stdio(id("m"), Stream::Both)),
        ("io/m/stdin", Place::Stdio(id("m"), Stream::Stdin)),
        ("io/m/stdout", Place::Stdio(id("m"), Stream::Stdout)),
        ("io/m/stderr", Place::Stdio(id("m"), Stream::Stderr)),
        ("debug/stdout/m", Place::Stdio(id("m"), Stream::Stdout)),
        ("debug/stdin/m", Place::Stdio(id("m"), Stream::Stdin)),
        ("log/orchestrator", Place::Log),
        ("log", Place::Log),
        ("notif", Place::Notif),
        (
            "profile/deployed/r/m",
            Place::Profile("deployed".into(), id("r"), id("m")),
        ),
    ] {
        assert_eq!(
            draft().place(&format!("org/site/proc/{topic}")),
            Some(place),
            "{topic}"
        );
    }
    for topic in [
        "org/site/proc",
        "org/site/proc/",
        "org/site/proc/other",
        "org/site/proc/reg//",
        "org/site/proc/reg/a/b",
        "org/site/proc/control/a b",
        "org/site/proc/io/m",
        "org/site/proc/io/m/stdio",
        "org/site/proc/io/m/stdout/x",
        "org/site/reg/u1",
        "org/proc/reg/u1",
        "org/site2/proc/reg/u1",
        "org/siteproc/reg",
        "proc/reg",
        "",
        "/",
        "org/site/proc/profile/k/r/m/x",
        "org/site/proc/a/b/c/d/e/f/g/h/i",
    ] {
        assert_eq!(draft().place(topic), None, "{topic}");
    }
}

#[test]
fn topics_of_scenes_are_known() {
    for (topic, place) in [
        ("g/public/p", Place::Control(None)),
        ("g/public/p/u1", Place::Control(Some(id("u1")))),
        ("s/public/default/p/client/tag", Place::Control(None)),
        (
            "s/public/other/p/m/-/stdout",
            Place::Stdio(id("m"), Stream::Stdout),
        ),
        (
            "s/public/other/p/m/-/stdin",
            Place::Stdio(id("m"), Stream::Stdin),
        ),
        ("g/public/p/orchestrator/-/log", Place::Log),
    ] {
        assert_eq!(
            scene().place(&format!("realm/{topic}")),
            Some(place),
            "{topic}"
        );
    }
    for topic in [
        "realm/g/other/p/u1",
        "realm/s/other/default/p/c/t",
        "realm/s/public/default/o/c/t",
        "realm/s/public/default/p/c",
        "realm/s/public/default/p/m/-/other",
        "realm/proc/reg/u1",
        "realm/g/public/p/u1/x",
        "realm/g/public/p/u1/-/log",
    ] {
        assert_eq!(scene().place(topic), None, "{topic}");
    }
}

#[test]
fn a_topic_of_ours_is_its_place_again() {
    let places = [
        Place::Control(Some(id("u1"))),
        Place::Control(None),
        Place::Stdio(id("m"), Stream::Stdin),
        Place::Stdio(id("m"), Stream::Stdout),
        Place::Stdio(id("m"), Stream::Stderr),
        Place::Stdio(id("m"), Stream::Both),
        Place::Log,
        Place::Notif,
        Place::Profile("benchmarking".into(), id("r"), id("m")),
    ];
    for topics in [draft(), scene()] {
        for place in &places {
            let topic = topics.topic(place);
            assert_eq!(
                topics.place(topic.as_str()).as_ref(),
                Some(place),
                "{topic}"
            );
            assert!(topic.as_str().parse::<Topic>().is_ok(), "{topic}");
        }
    }
    for place in [
        Place::Reg(None),
        Place::Reg(Some(id("u1"))),
        Place::Keepalive(None),
        Place::Keepalive(Some(id("u1"))),
    ] {
        assert_eq!(draft().place(draft().topic(&place).as_str()), Some(place));
    }
    // In scenes a runtime has one topic for everything.
    let own = scene().topic(&Place::Control(Some(id("u1"))));
    assert_eq!(scene().topic(&Place::Reg(Some(id("u1")))), own);
    assert_eq!(scene().topic(&Place::Keepalive(Some(id("u1")))), own);
    assert_eq!(own.as_str(), "realm/g/public/p/u1");
    let odd = Place::Profile("a/+#".into(), id("r"), id("m"));
    assert_eq!(
        draft().topic(&odd).as_str(),
        "org/site/proc/profile/a---/r/m"
    );
    assert_eq!(
        draft().topic(&Place::Log).as_str(),
        "org/site/proc/log/orchestrator"
    );
}

/// Whether an MQTT filter matches a topic.
fn matches(filter: &str, topic: &str) -> bool {
    let mut topic = topic.split('/');
    for level in filter.split('/') {
        match (level, topic.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(name)) if level == name => {}
            _ => return false,
        }
    }
    topic.next().is_none()
}

#[test]
fn the_orchestrator_hears_every_place_where_it_is_spoken_to() {
    for (topics, heard) in [
        (
            draft(),
            &[
                "reg",
                "reg/",
                "reg/u1",
                "keepalive/u1",
                "control",
                "control/",
                "control/u1",
                "stdio/m",
                "io/m/stdout",
                "debug/stdout/m",
            ][..],
        ),
        (
            scene(),
            &[
                "g/public/p/u1",
                "s/public/default/p/c/t",
                "s/public/x/p/m/-/stdout",
            ][..],
        ),
    ] {
        let filters = topics.orchestrator_filters();
        let base = if topics == draft() {
            "org/site/proc"
        } else {
            "realm"
        };
        for topic in heard {
            let topic = format!("{base}/{topic}");
            assert!(
                filters.iter().any(|filter| matches(filter, &topic)),
                "{topic}"
            );
        }
        let own = topics.topic(&Place::Log);
        let hears = filters.iter().any(|filter| matches(filter, own.as_str()));
        // In scenes the log is below the topics of runtimes; `no local` keeps our own messages away.
        assert_eq!(hears, topics == scene());
    }
}

#[test]
fn a_runtime_hears_answers_and_requests_and_nothing_of_others() {
    let filters = draft().runtime_filters(&id("u1"));
    assert_eq!(
        filters,
        ["org/site/proc/reg/u1", "org/site/proc/control/u1"]
    );
    assert_eq!(scene().runtime_filters(&id("u1")), ["realm/g/public/p/u1"]);
}

#[test]
fn realms_and_namespaces_are_parts_of_topics() {
    let long = "x".repeat(256);
    for realm in [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "a/#",
        "+",
        "$SYS",
        "a\0",
        long.as_str(),
    ] {
        assert!(Topics::new(realm, Scheme::Draft).is_err(), "{realm:?}");
    }
    for namespace in ["", "a/b", "+", "#", "a b"] {
        let scheme = Scheme::Scene {
            namespace: namespace.into(),
        };
        assert!(Topics::new("realm", scheme).is_err(), "{namespace:?}");
    }
}

#[test]
fn names_are_refused_for_what_they_are() {
    for text in ["", "a b", "a/b", "a+", "#", "ä", &"x".repeat(65)] {
        assert!(text.parse::<Uuid>().is_err(), "{text:?}");
    }
    assert!("seedrt".parse::<Uuid>().is_ok());
    for text in [
        "",
        "/a",
        "a/",
        "a//b",
        "a/../b",
        ".",
        "a\\b",
        "a\0",
        &"x".repeat(1025),
    ] {
        assert!(text.parse::<ModulePath>().is_err(), "{text:?}");
    }
    assert_eq!(
        "a/b.wasm".parse::<ModulePath>().unwrap().as_str(),
        "a/b.wasm"
    );
    for text in ["", "a/+", "#", "$SYS/a", "a\0", "a\nb", &"x".repeat(1025)] {
        assert!(text.parse::<Topic>().is_err(), "{text:?}");
    }
    let refused = "x".repeat(100).parse::<Uuid>().unwrap_err();
    assert_eq!(refused.text.len(), 64);
}
