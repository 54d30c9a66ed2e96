//! Beacon `load`: load averages outside their bounds (`salt/beacons/load.py`).

use super::number;
use halite_wire::{Map, Value};

const NAMES: [&str; 3] = ["1m", "5m", "15m"];

pub(super) fn validate(config: &Map) -> Result<(), String> {
    for name in ["emitatstartup", "onchangeonly"] {
        if config.get(name).is_some_and(|v| v.as_bool().is_none()) {
            return Err(format!(
                "Configuration for load beacon option {name} must be a boolean."
            ));
        }
    }
    let Some(averages) = config.get("averages") else {
        return Err("Averages configuration is required for load beacon.".to_owned());
    };
    let averages = averages.as_map();
    if !averages.is_some_and(|map| NAMES.iter().any(|name| map.contains(name))) {
        return Err(
            "Averages configuration for load beacon must contain 1m, 5m or 15m items.".to_owned(),
        );
    }
    for name in NAMES {
        let bounds = averages
            .and_then(|map| map.get(name))
            .and_then(Value::as_array);
        match bounds.map(<[Value]>::len) {
            None => {
                return Err(
                    "Averages configuration for load beacon: 1m, 5m and 15m items must be a list of two items."
                        .to_owned(),
                );
            }
            Some(2) => {}
            Some(_) => {
                return Err(
                    "Configuration for load beacon: 1m, 5m and 15m items must be a list of two items."
                        .to_owned(),
                );
            }
        }
    }
    Ok(())
}

pub(super) fn poll(last: &mut Option<[f64; 3]>, config: &Map) -> Result<Vec<Map>, String> {
    let text = std::fs::read_to_string("/proc/loadavg").map_err(|e| e.to_string())?;
    let mut words = text
        .split_whitespace()
        .filter_map(|word| word.parse::<f64>().ok());
    let now = [(); 3].map(|()| words.next().unwrap_or_default());
    evaluate(last, config, now)
}

fn evaluate(last: &mut Option<[f64; 3]>, config: &Map, now: [f64; 3]) -> Result<Vec<Map>, String> {
    let flag = |name: &str, default: bool| config.get(name).map_or(default, Value::truthy);
    let on_change = flag("onchangeonly", false);
    if on_change && last.is_none() {
        *last = Some(now);
        if !flag("emitatstartup", true) {
            return Ok(Vec::new());
        }
    }
    let averages = config.get("averages").and_then(Value::as_map);
    let mut tell = false;
    for (at, name) in NAMES.iter().enumerate() {
        let bounds = averages
            .and_then(|map| map.get(name))
            .and_then(Value::as_array);
        let Some([low, high]) = bounds else {
            continue;
        };
        let (low, high) = (number(low)?, number(high)?);
        let (value, before) = (now[at], last.map_or(now[at], |last| last[at]));
        tell |= if on_change {
            (value > high && before < high) || (value < low && before > low)
        } else {
            value < low || value > high
        };
    }
    if on_change {
        *last = Some(now);
    }
    let all: Map = NAMES.into_iter().zip(now.map(Value::Float)).collect();
    Ok(if tell { vec![all] } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Map {
        halite_wire::yaml::parse(text).unwrap().into_map().unwrap()
    }

    #[test]
    fn bounds() {
        let averages = "averages: {1m: [0.1, 2.0], 5m: [0.1, 1.5], 15m: [0.1, 1.0]}";
        let always = config(averages);
        let mut last = None;
        assert_eq!(evaluate(&mut last, &always, [1.0; 3]).unwrap().len(), 0);
        let events = evaluate(&mut last, &always, [3.0, 1.0, 0.5]).unwrap();
        assert_eq!(
            events,
            [halite_wire::map! {"1m" => 3.0, "5m" => 1.0, "15m" => 0.5}]
        );
        let change = config(&format!("{averages}\nonchangeonly: true"));
        let mut count = |now| evaluate(&mut last, &change, now).unwrap().len();
        assert_eq!(count([3.0, 1.0, 0.5]), 0);
        assert_eq!(count([0.5; 3]), 0);
        assert_eq!(count([3.0, 1.0, 0.5]), 1);
        assert_eq!(count([3.0, 1.0, 0.5]), 0);
    }
}
