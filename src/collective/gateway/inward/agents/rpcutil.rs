//! `rpcutil`: information about a node (reference, section 12).

use super::ddl::{Action, Ddl, Input, InputType, Output, RpcError, out};
use super::{AGENTS, Body, Known, VERSION, data, fact, look_up};
use crate::gateway::inward::process;
use crate::ruby::Datum;

const fn needed(name: &'static str, description: &'static str, kind: InputType) -> Input {
    Input {
        name,
        prompt: description,
        description,
        kind,
        optional: false,
    }
}

const fn action(
    name: &'static str,
    description: &'static str,
    inputs: &'static [Input],
    outputs: &'static [Output],
) -> Action {
    Action {
        name,
        description,
        inputs,
        outputs,
    }
}

const FACT: &[Input] = &[needed(
    "fact",
    "Name of a fact",
    InputType::Text(40, r"^[\w\-\.]+$"),
)];
const FACTS: &[Input] = &[needed(
    "facts",
    "Names of facts, separated by commas",
    InputType::Text(200, r"^\s*[\w\.\-]+(\s*,\s*[\w\.\-]+)*$"),
)];
const ITEM: &[Input] = &[needed("item", "A setting", InputType::Text(50, "^.+$"))];
const SOURCE: &[Input] = &[
    needed("source", "A data plugin", InputType::Text(50, r"^\w+$")),
    Input {
        name: "query",
        prompt: "Query",
        description: "What the plugin is asked about",
        kind: InputType::Text(200, "^.+$"),
        optional: true,
    },
];

/// The interface of the agent.
pub(super) static DDL: Ddl = Ddl {
    name: "rpcutil",
    description: "What nodes are and how they are set up",
    timeout: 10,
    actions: &[
        action(
            "ping",
            "Tells the time",
            &[],
            &[out("pong", "Unix time", "Timestamp")],
        ),
        action(
            "collective_info",
            "Tells the collectives of the node",
            &[],
            &[
                out("main_collective", "The main collective", "Main Collective"),
                out("collectives", "All collectives", "All Collectives"),
            ],
        ),
        action(
            "inventory",
            "Tells all about the node",
            &[],
            &[
                out("agents", "Names of the agents", "Agents"),
                out("facts", "All facts", "Facts"),
                out("classes", "Names of the classes", "Classes"),
                out("version", "Version of halite", "Version"),
                out("main_collective", "The main collective", "Main Collective"),
                out("collectives", "All collectives", "All Collectives"),
                out("data_plugins", "Names of the data plugins", "Data Plugins"),
            ],
        ),
        action(
            "get_fact",
            "Tells one fact",
            FACT,
            &[
                out("fact", "Its name", "Fact"),
                out("value", "Its value", "Value"),
            ],
        ),
        action(
            "get_facts",
            "Tells several facts",
            FACTS,
            &[out("values", "Their values", "Values")],
        ),
        action(
            "daemon_stats",
            "Tells what the gateway has counted for the node",
            &[],
            &[
                out("threads", "Threads of the gateway", "Threads"),
                out("agents", "Names of the agents", "Agents"),
                out("pid", "Process id of the gateway", "PID"),
                out("times", "Processor time of the gateway", "Times"),
                out("validated", "Genuine messages", "Security Validated"),
                out("unvalidated", "Messages that were not", "Failed Security"),
                out("passed", "Messages that passed the filter", "Passed Filter"),
                out("filtered", "Messages that did not", "Failed Filter"),
                out("starttime", "When the gateway started", "Start Time"),
                out("total", "Messages received", "Total Messages"),
                out("replies", "Replies sent", "Replies"),
                out("configfile", "The master's file", "Config File"),
                out("version", "Version of halite", "Version"),
                out("ttlexpired", "Messages that came too late", "TTL Expired"),
            ],
        ),
        action(
            "agent_inventory",
            "Tells what the agents are",
            &[],
            &[out("agents", "What they are", "Agents")],
        ),
        action(
            "get_config_item",
            "Tells a setting",
            ITEM,
            &[
                out("item", "Its name", "Property"),
                out("value", "Its value", "Value"),
            ],
        ),
        action("get_data", "Asks a data plugin", SOURCE, &[]),
    ],
};

/// The reply of a node.
pub(super) fn answer(action: &'static Action, inputs: &Datum, known: &Known) -> Body {
    let text = |name: &str| {
        let given = inputs.get(name).and_then(Datum::as_str);
        given.unwrap_or_default().to_owned()
    };
    let data = match action.name {
        "ping" => vec![("pong", Datum::Int(known.now.unix.into()))],
        "collective_info" => collectives(known),
        "inventory" => inventory(known),
        "get_fact" => {
            let name = text("fact");
            let value = value(&name, known);
            vec![("fact", Datum::Str(name)), ("value", value)]
        }
        "get_facts" => {
            let names = text("facts");
            let pairs = names.split(',').map(|name| {
                let name = name.trim();
                (name.into(), value(name, known))
            });
            vec![("values", Datum::Hash(pairs.collect()))]
        }
        "daemon_stats" => daemon_stats(known),
        "agent_inventory" => vec![("agents", agent_inventory())],
        "get_config_item" => {
            let item = text("item");
            let Some(value) = config_item(&item, known) else {
                let wrong = RpcError(1, format!("Unknown config property {item}"));
                return Body::failed(Some(action), wrong);
            };
            vec![("item", Datum::Str(item)), ("value", value)]
        }
        _ => {
            let query = inputs.get("query");
            let found = data::query_plugin(
                &text("source"),
                query,
                known.node,
                &known.settings.collectives,
            );
            return match found {
                Ok(found) => Body::done(action, found),
                Err(wrong) => Body::failed(Some(action), wrong),
            };
        }
    };
    let data = data.into_iter();
    Body::done(action, data.map(|(n, v)| (n.to_owned(), v)).collect())
}

fn value(name: &str, known: &Known) -> Datum {
    look_up(&known.node.grains, name).map_or(Datum::Nil, |value| fact(value, known.form))
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> Datum {
    Datum::Array(names.into_iter().map(Datum::from).collect())
}

fn collectives(known: &Known) -> Vec<(&'static str, Datum)> {
    let all = &known.settings.collectives;
    let main = all.first().map_or(Datum::Nil, |main| main.as_str().into());
    vec![
        ("main_collective", main),
        ("collectives", list(all.iter().map(|c| c.as_str()))),
    ]
}

fn inventory(known: &Known) -> Vec<(&'static str, Datum)> {
    let facts = known.node.grains.iter().map(|(name, value)| {
        let name = halite_target::python_str(name).into_owned();
        (Datum::Str(name), fact(value, known.form))
    });
    let plugins: Vec<String> = data::PLUGINS.iter().map(|n| format!("{n}_data")).collect();
    let mut all = vec![
        ("agents", list(AGENTS)),
        ("facts", Datum::Hash(facts.collect())),
        (
            "classes",
            list(known.node.classes.iter().map(String::as_str)),
        ),
        ("version", VERSION.into()),
        ("data_plugins", list(plugins.iter().map(String::as_str))),
    ];
    all.extend(collectives(known));
    all
}

fn daemon_stats(known: &Known) -> Vec<(&'static str, Datum)> {
    let count = |number: u64| Datum::Int(number.into());
    let (tally, own) = (known.tally, process::read());
    let times = own.times.into_iter();
    let times = times.map(|(name, seconds)| (Datum::symbol(name), Datum::Float(seconds)));
    vec![
        ("threads", list(own.threads.iter().map(String::as_str))),
        ("agents", list(AGENTS)),
        ("pid", count(own.pid.into())),
        ("times", Datum::Hash(times.collect())),
        ("validated", count(tally.validated)),
        ("unvalidated", count(tally.unvalidated)),
        ("passed", count(tally.passed)),
        ("filtered", count(tally.filtered)),
        ("starttime", Datum::Int(known.settings.started.into())),
        ("total", count(tally.total)),
        ("replies", count(tally.replies)),
        ("configfile", known.settings.configfile.as_str().into()),
        ("version", VERSION.into()),
        ("ttlexpired", count(tally.ttlexpired)),
    ]
}

fn agent_inventory() -> Datum {
    let one = |agent: &str| {
        let mut all = vec![
            (Datum::symbol("agent"), Datum::from(agent)),
            (Datum::symbol("name"), Datum::from(agent)),
        ];
        let about = data::about(agent).unwrap_or_default().into_iter();
        all.extend(about.map(|(name, value)| (Datum::symbol(name), value)));
        Datum::Hash(all)
    };
    Datum::Array(AGENTS.into_iter().map(one).collect())
}

/// The settings that may be read. The list is fixed, since a configuration contains secrets.
fn config_item(item: &str, known: &Known) -> Option<Datum> {
    let settings = known.settings;
    Some(match item {
        "identity" => known.node.identity.as_str().into(),
        "main_collective" | "collectives" => {
            let all = collectives(known).into_iter();
            all.filter(|(name, _)| *name == item)
                .map(|(_, value)| value)
                .next()?
        }
        "connector" => settings.connector.into(),
        "securityprovider" => settings.security.into(),
        "configfile" => settings.configfile.as_str().into(),
        "ttl" => Datum::Int(settings.ttl.into()),
        "mode" => Datum::symbol("server"),
        "direct_addressing" | "rpcauthorization" => Datum::Bool(true),
        "registerinterval" => Datum::Int(0),
        _ => return None,
    })
}
