//! Block style as PyYAML writes it.

use crate::wire::Value;

/// placeholder
pub fn emit(value: &Value, _sort: bool) -> String {
    emit_scalar(value)
}

/// placeholder
pub fn emit_scalar(value: &Value) -> String {
    match value {
        Value::Nil => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::UInt(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::Str(s) => s.clone(),
        Value::Bytes(_) => "!!binary".into(),
        Value::Array(_) | Value::Map(_) => serde_json::to_string(value).unwrap_or_default(),
    }
}

/// placeholder
pub fn emit_flow(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
