//! Topics and filters of MQTT, according to its specification (MQTT 5, section 4.7).

use super::LONGEST_TEXT;

/// Whether a string is valid in a packet. Brokers close the connection over characters that the specification only
/// advises against (MQTT 5, section 1.5.4), and would do so again each time it is resent.
pub(super) fn is_text(text: &str) -> bool {
    let odd = |c: char| {
        let code = u32::from(c);
        c.is_control() || code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
    };
    text.len() <= LONGEST_TEXT && !text.contains(odd)
}

/// Whether a topic is valid for publishing: no wildcards.
pub(super) fn is_topic(topic: &str) -> bool {
    !topic.is_empty() && is_text(topic) && !topic.contains(['+', '#'])
}

/// Whether a filter is valid for subscribing: `+` and `#` as whole levels only, `#` as the last one.
pub(super) fn is_filter(filter: &str) -> bool {
    if filter.is_empty() || !is_text(filter) {
        return false;
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let fits = match level {
            "#" => levels.peek().is_none(),
            "+" => true,
            _ => !level.contains(['+', '#']),
        };
        if !fits {
            return false;
        }
    }
    match filter.strip_prefix("$share/") {
        None => true,
        // A group, then a filter.
        Some(shared) => matches!(shared.split_once('/'), Some((group, filter))
            if !group.is_empty() && !group.contains('+') && !filter.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_have_no_wildcards_and_filters_have_whole_ones() {
        let long = "x".repeat(LONGEST_TEXT + 1);
        for good in [
            "a",
            "/",
            "a//b",
            "$SYS/x",
            "realm/proc/reg",
            "ä b",
            &long[1..],
        ] {
            assert!(is_topic(good) && is_filter(good), "{good:?}");
        }
        for bad in [
            "",
            "a\0b",
            "a\nb",
            "a\u{85}",
            "a\u{ffff}",
            "\u{fdd0}",
            &long,
        ] {
            assert!(!is_topic(bad) && !is_filter(bad), "{bad:?}");
        }
        for good in ["#", "+", "a/#", "+/b/+", "/+", "$share/g/a/#"] {
            assert!(is_filter(good) && !good.contains("/a/b"), "{good:?}");
        }
        for filter in ["#", "+", "a/#", "a/+/b"] {
            assert!(!is_topic(filter), "{filter:?}");
        }
        for bad in [
            "a#",
            "#/a",
            "a/#/b",
            "a+",
            "a/+b",
            "++",
            "$share/g",
            "$share//a",
            "$share/+/a",
            "$share/g/",
        ] {
            assert!(!is_filter(bad), "{bad:?}");
        }
    }
}
