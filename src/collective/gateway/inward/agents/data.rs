//! Data plugins: what `rpcutil get_data` and compound filters may ask a node for (reference, section 12).

use super::ddl::{Input, Kind, Wrong};
use super::{AUTHOR, LICENSE, URL, VERSION, ddl_of, look_up};
use crate::gateway::inward::nodes::Node;
use crate::ruby::Datum;
use crate::wire::Collective;
use halite_wire::Value;

/// All plugins. `fstat` is none of them: files are the minion's, and are asked for by its functions.
pub(crate) const PLUGINS: [&str; 3] = ["agent", "collective", "fact"];

const AGENT: Input = query(20, r"^[\w\_]+$");
const ANYTHING: Input = query(256, "(?s).");

const fn query(longest: usize, pattern: &'static str) -> Input {
    Input {
        name: "query",
        prompt: "Query",
        description: "What is asked about",
        kind: Kind::Text(longest, pattern),
        optional: false,
    }
}

/// Seconds that a client waits for `discovery`.
const DISCOVERY_TIMEOUT: u32 = 5;

/// What is known of an agent, as `agent_inventory` and the plugin `agent` tell it.
pub(crate) fn about(agent: &str) -> Option<Vec<(&'static str, Datum)>> {
    let (description, timeout) = match (ddl_of(agent), agent) {
        (Some(ddl), _) => (ddl.description, ddl.timeout),
        (None, "discovery") => ("Tells that a node is there", DISCOVERY_TIMEOUT),
        _ => return None,
    };
    Some(vec![
        ("license", LICENSE.into()),
        ("timeout", Datum::Int(timeout.into())),
        ("description", description.into()),
        ("url", URL.into()),
        ("version", VERSION.into()),
        ("author", AUTHOR.into()),
    ])
}

/// Asks a plugin.
///
/// # Errors
/// 5 for a plugin or an agent that is not there, 4 for a query that is none.
pub(crate) fn ask(
    plugin: &str,
    query: Option<&Datum>,
    node: &Node,
    collectives: &[Collective],
) -> Result<Vec<(String, Datum)>, Wrong> {
    let plugin = plugin.to_lowercase();
    let plugin = plugin.strip_suffix("_data").unwrap_or(&plugin);
    let nothing = Datum::Nil;
    let asked = |input: &Input| {
        let query = query.unwrap_or(&nothing);
        let bad = |why| Wrong(4, format!("Cannot validate input query: {why}"));
        input.check(query).map_err(bad)?;
        Ok(query.as_str().unwrap_or_default().to_owned())
    };
    let found = match plugin {
        "agent" => {
            let name = asked(&AGENT)?;
            let about = about(&name).ok_or(Wrong(5, format!("No agent called {name} found")))?;
            let mut all = vec![("agent", Datum::Str(name))];
            all.extend(about);
            all
        }
        "collective" => {
            let name = asked(&ANYTHING)?;
            let member = collectives.iter().any(|own| own.as_str() == name);
            vec![("member", Datum::Bool(member))]
        }
        "fact" => fact(look_up(&node.grains, &asked(&ANYTHING)?)),
        other => {
            let all = PLUGINS.join(", ");
            let text = format!("there is no data plugin {other:?} here; there are {all}");
            return Err(Wrong(5, text));
        }
    };
    let found = found.into_iter();
    Ok(found
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

/// What the plugin `fact` says of a fact: lists and maps are JSON.
fn fact(found: Option<&Value>) -> Vec<(&'static str, Datum)> {
    let (exists, value, encoding) = match found {
        None => (false, Datum::Bool(false), Datum::Bool(false)),
        Some(value @ (Value::Array(_) | Value::Map(_))) => {
            let json = super::json(value).to_string();
            (true, Datum::Str(json), "application/json".into())
        }
        Some(value) => (true, Datum::from(value), "text/plain".into()),
    };
    vec![
        ("exists", Datum::Bool(exists)),
        ("value", value),
        ("value_encoding", encoding),
    ]
}
