//! Data plugins, which `rpcutil get_data` and compound filters query (reference, section 12).

use super::ddl::{Input, InputType, RpcError};
use super::{AUTHOR, LICENSE, URL, VERSION, ddl_of, look_up};
use crate::gateway::inward::nodes::Node;
use crate::ruby::Datum;
use crate::wire::Collective;
use halite_wire::Value;

/// All plugins. `fstat` is not included: files are on the minion, and its functions query them.
pub(crate) const PLUGINS: [&str; 3] = ["agent", "collective", "fact"];

const AGENT: Input = query(20, r"^[\w\_]+$");
const ANYTHING: Input = query(256, "(?s).");

const fn query(longest: usize, pattern: &'static str) -> Input {
    Input {
        name: "query",
        prompt: "Query",
        description: "What is asked about",
        kind: InputType::Text(longest, pattern),
        optional: false,
    }
}

/// How long a client waits for `discovery`, in seconds.
const DISCOVERY_TIMEOUT: u32 = 5;

/// Metadata of an agent, as in `agent_inventory` and the plugin `agent`.
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

/// Queries a plugin.
///
/// # Errors
/// 5 for a missing plugin or agent, 4 for an invalid query.
pub(crate) fn query_plugin(
    plugin: &str,
    query: Option<&Datum>,
    node: &Node,
    collectives: &[Collective],
) -> Result<Vec<(String, Datum)>, RpcError> {
    let plugin = plugin.to_lowercase();
    let plugin = plugin.strip_suffix("_data").unwrap_or(&plugin);
    let nothing = Datum::Nil;
    let asked = |input: &Input| {
        let query = query.unwrap_or(&nothing);
        let bad = |why| RpcError(4, format!("Cannot validate input query: {why}"));
        input.check(query).map_err(bad)?;
        Ok(query.as_str().unwrap_or_default().to_owned())
    };
    let found = match plugin {
        "agent" => {
            let name = asked(&AGENT)?;
            let about = about(&name).ok_or(RpcError(5, format!("No agent called {name} found")))?;
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
            return Err(RpcError(5, text));
        }
    };
    let found = found.into_iter();
    Ok(found
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
}

/// The output of the plugin `fact` for a fact; lists and maps are JSON.
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
