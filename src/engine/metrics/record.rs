//! Metrics from the numbers in the record of a role.

use super::text::{MetricKind, Text};
use halite_wire::{Map, Value};

/// Families of one sample each: name, kind, help, field of the record.
pub(super) fn all(text: &mut Text, r: &Map, fields: &[(&'static str, MetricKind, &str, &str)]) {
    for (name, kind, help, field) in fields {
        text.one(name, *kind, help, number(r, field));
    }
}

/// Families with a sample for each of these records, which a label names: name, help, field of the record.
pub(super) fn each(
    text: &mut Text,
    kind: MetricKind,
    label: &str,
    records: &[(&str, &Map)],
    fields: &[(&'static str, &str, &str)],
) {
    for (name, help, field) in fields {
        text.family(name, kind, help);
        for (of, record) in records {
            text.sample(&[(label, of)], number(record, field));
        }
    }
}

/// Whether a gateway waits; if so, there is nothing more to say about it.
pub(super) fn waits(text: &mut Text, name: &'static str, r: &Map) -> bool {
    let waits = number(r, "waits");
    let help = "Whether this gateway waits, since one master of the cluster runs it.";
    text.one(name, MetricKind::Gauge, help, waits);
    waits > 0.0
}

/// A number of a record by name; 0 if missing.
pub(super) fn number(record: &Map, name: &str) -> f64 {
    as_number(record.get(name))
}

/// A number; 0 if missing.
pub(super) fn as_number(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Int(i)) => *i as f64,
        Some(Value::UInt(u)) => *u as f64,
        Some(Value::Float(f)) => *f,
        _ => 0.0,
    }
}
