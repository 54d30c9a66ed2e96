//! The current time as Unix time. A clock set before 1970 counts as 1970.

use std::time::{Duration, SystemTime};

/// Time since the start of 1970.
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Whole seconds since 1970.
pub fn unix_now() -> u64 {
    since_epoch().as_secs()
}

/// Whole seconds since 1970, for subtraction.
pub fn unix_now_i64() -> i64 {
    i64::try_from(unix_now()).unwrap_or(i64::MAX)
}

/// Seconds since 1970 with their fraction, as Python's `time.time()`.
pub fn unix_now_f64() -> f64 {
    since_epoch().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_tell_the_same_time() {
        let before = unix_now();
        let (signed, float) = (unix_now_i64(), unix_now_f64());
        let after = unix_now();
        assert!(before > 1_700_000_000);
        assert!((before as i64..=after as i64).contains(&signed));
        assert!((before as f64..after as f64 + 1.0).contains(&float));
    }
}
