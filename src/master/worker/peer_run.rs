//! Runner functions on behalf of a minion, each in its own process: `halite-run` with an argument list.

use halite_config::MasterConfig;
use halite_sys::command::Helper;
use halite_sys::exit::ExitError;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Runs a function and returns its result.
///
/// # Errors
/// The program is missing, or the function fails or exceeds the request timeout.
pub(super) fn run(config: &MasterConfig, fun: &str, args: Vec<Value>) -> Result<Value, ExitError> {
    // Reject anything that the command line could take for an option.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    if !fun.starts_with(|c: char| c.is_ascii_alphabetic()) || !fun.chars().all(plain) {
        return Err(ExitError::new(
            1,
            format!("{fun:.80?} is not a function name"),
        ));
    }
    let words = command_line(config, fun, &args)?;
    let limit = Duration::from_secs(config.request_timeout.saturating_sub(2).max(1));
    let done = Helper::new(words)
        .run(limit)
        .map_err(|e| ExitError::new(1, e.to_string()))?;
    // If a function fails with a result, as for an unknown job, that result is returned.
    halite_wire::json::parse(&done.stdout).map_err(|e| {
        let said = String::from_utf8_lossy(&done.stderr);
        let code = done.code;
        let why = format!("the runner {fun} ended with {code} and no JSON ({e}): {said:.500}");
        ExitError::new(1, why)
    })
}

fn command_line(
    config: &MasterConfig,
    fun: &str,
    args: &[Value],
) -> Result<Vec<String>, ExitError> {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let dir = config
        .conf_file
        .parent()
        .unwrap_or(std::path::Path::new("."));
    let mut words = vec![
        text(&std::env::current_exe()?.with_file_name("halite-run")),
        "-c".to_owned(),
        text(dir),
        "--out=json".to_owned(),
        fun.to_owned(),
    ];
    for arg in args {
        match arg.as_map().filter(|m| m.contains("__kwarg__")) {
            Some(keywords) => words.extend(keyword_words(keywords)),
            None => words.push(literal(arg)),
        }
    }
    Ok(words)
}

fn keyword_words(keywords: &Map) -> impl Iterator<Item = String> {
    let named = keywords.iter().filter(|(k, _)| !k.is_str("__kwarg__"));
    named.filter_map(|(name, value)| Some(format!("{}={}", name.as_str()?, literal(value))))
}

/// Encodes a value so that the command line parses exactly it: JSON is YAML, and without `#` no part can be a
/// comment.
fn literal(value: &Value) -> String {
    serde_json::to_string(value)
        .unwrap_or_default()
        .replace('#', "\\u0023")
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::yaml::parse_input;

    #[test]
    fn arguments_survive_the_command_line() {
        let values: Vec<Value> = vec![
            "12".into(),
            "a=b # c\n\t\"'".into(),
            "".into(),
            "[1".into(),
            7.into(),
            true.into(),
            Value::Nil,
            vec![Value::from("x"), 1.into()].into(),
            halite_wire::map! {"k" => "v # w"}.into(),
        ];
        let words: Vec<String> = values.iter().map(literal).collect();
        assert_eq!(parse_input(&words, &[]), (values, Map::new()));
        let keywords = halite_wire::map! {"__kwarg__" => true, "tgt" => "1", "n" => 2};
        let words: Vec<String> = keyword_words(&keywords).collect();
        assert_eq!(
            parse_input(&words, &[]),
            (vec![], halite_wire::map! {"tgt" => "1", "n" => 2})
        );
    }
}
