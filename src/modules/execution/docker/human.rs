//! Times and sizes as people read them.

use super::super::python;
use halite_wire::Map;

/// A number of bytes for people.
pub fn size(bytes: i64) -> String {
    let mut number = bytes as f64;
    if bytes.unsigned_abs() < 1024 {
        return format!("{bytes} bytes");
    }
    let mut unit = "";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if number.abs() < 1024.0 {
            break;
        }
        number /= 1024.0;
        unit = next;
    }
    format!("{number:.1} {unit}")
}

/// A map with times and sizes that people can read beside those of the engine.
pub fn human(map: Map, without: &[&str]) -> Map {
    let mut shown = Map::new();
    let mut more = Map::new();
    for (key, value) in map.0 {
        let key = python::str(&key);
        if without.contains(&key.as_str()) {
            continue;
        }
        match (key.as_str(), value.as_int()) {
            ("Created", Some(seconds)) => {
                shown.set("Time_Created_Epoch", seconds);
                if let Ok(time) = jiff::Timestamp::from_second(seconds) {
                    let zone = halite_sys::localtime::now().time_zone().clone();
                    let text = time
                        .to_zoned(zone)
                        .strftime("%Y-%m-%d %H:%M:%S %Z")
                        .to_string();
                    more.set("Time_Created_Local", text);
                }
                continue;
            }
            ("Size" | "VirtualSize", Some(bytes)) => more.set(format!("{key}_Human"), size(bytes)),
            _ => {}
        }
        shown.set(key, value);
    }
    shown.0.extend(more.0);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let shown = [0, 1023, 1024, 1_982_286, 5 << 30].map(size);
        assert_eq!(
            shown,
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.9 MiB", "5.0 GiB"]
        );
    }
}
