//! The local time of this host.

use jiff::Zoned;
use jiff::tz::TimeZone;
use std::path::Path;
use std::sync::OnceLock;

/// The host's time zone file.
const ZONE: &str = "/etc/localtime";

/// The current time in the time zone of `TZ`, or in the host's as it was when this process first asked. This
/// reads a single file, while `Zoned::now` goes through the names of all zones.
pub fn now() -> Zoned {
    static HOST: OnceLock<Option<TimeZone>> = OnceLock::new();
    if std::env::var_os("TZ").is_some() {
        return Zoned::now();
    }
    match HOST.get_or_init(|| read(Path::new(ZONE))) {
        Some(zone) => jiff::Timestamp::now().to_zoned(zone.clone()),
        None => Zoned::now(),
    }
}

fn read(path: &Path) -> Option<TimeZone> {
    TimeZone::tzif("Local", &std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_time_that_the_system_shows() {
        let form = "%Y-%m-%d %H %Z %z";
        // The hour may change between the two calls, but not in three attempts in a row.
        let same = (0..3)
            .any(|_| now().strftime(form).to_string() == Zoned::now().strftime(form).to_string());
        assert!(same);
    }

    #[test]
    fn what_is_no_zone_is_none() {
        assert!(read(Path::new("/no/such/zone")).is_none());
        assert!(read(Path::new("/proc/self/stat")).is_none());
    }
}
