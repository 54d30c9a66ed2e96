//! Maps the function of a job to a request to a node.

use crate::ruby::Datum;
use crate::wire::AgentName;
use halite_gateway::answer::{Args, FunctionResult};
use halite_wire::{Map, Value};

/// Functions of the gateway itself, sorted; all others are `AGENT.ACTION`.
pub(super) const FUNCTIONS: &[&str] = &[
    "collective.rpc",
    "grains.get",
    "grains.item",
    "grains.items",
    "grains.ls",
    "saltutil.find_job",
    "saltutil.refresh_grains",
    "saltutil.running",
    "saltutil.sync_grains",
    "sys.list_functions",
    "test.ping",
];

/// A parsed function call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// A request to the node.
    Ask(NodeRequest),
    /// Whether the job with this jid is running.
    FindJob(String),
    /// Which jobs are running.
    Running,
    /// Which functions are available.
    Functions,
}

/// A request to a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeRequest {
    /// Ping, by the agent `discovery`.
    Ping,
    /// Its inventory, to return grains.
    Grains,
    /// Its inventory, to store it.
    Refresh,
    /// An action of an agent.
    Action {
        /// The agent.
        agent: AgentName,
        /// Its action.
        action: String,
        /// Inputs, with symbols as keys.
        inputs: Vec<(Datum, Datum)>,
        /// An input without a name, which no agent takes.
        unnamed: Option<String>,
    },
}

impl Call {
    /// Parses the function of a job.
    ///
    /// # Errors
    /// The return, if no node needs to be asked.
    pub fn of(load: &Map) -> Result<Call, FunctionResult> {
        let Some(Value::Str(fun)) = load.get("fun") else {
            return Err(FunctionResult::failure(
                "several functions in one job are not for nodes of a collective; send one job each",
                1,
            ));
        };
        let args = Args::of(load);
        Ok(match fun.as_str() {
            "test.ping" => Call::Ask(NodeRequest::Ping),
            "grains.get" if args.positional.is_empty() => {
                return Err(FunctionResult::failure(
                    "grains.get takes the name of a grain",
                    1,
                ));
            }
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" => {
                Call::Ask(NodeRequest::Grains)
            }
            "saltutil.refresh_grains" | "saltutil.sync_grains" => Call::Ask(NodeRequest::Refresh),
            "saltutil.find_job" => {
                Call::FindJob(args.positional.into_iter().next().unwrap_or_default())
            }
            "saltutil.running" => Call::Running,
            "sys.list_functions" => Call::Functions,
            "collective.rpc" => Call::Ask(rpc(args)?),
            other => Call::Ask(action(other, args)?),
        })
    }
}

/// `collective.rpc AGENT ACTION name=value ...`.
fn rpc(args: Args) -> Result<NodeRequest, FunctionResult> {
    match args.positional.as_slice() {
        [agent, action] => {
            named(agent, action, &args.named).ok_or_else(|| missing(&format!("{agent}.{action}")))
        }
        _ => Err(FunctionResult::failure(
            "collective.rpc takes the name of an agent and of an action, then inputs as name=value",
            1,
        )),
    }
}

/// `AGENT.ACTION name=value ...`.
fn action(fun: &str, args: Args) -> Result<NodeRequest, FunctionResult> {
    let (agent, action) = fun.split_once('.').ok_or_else(|| missing(fun))?;
    let mut what = named(agent, action, &args.named).ok_or_else(|| missing(fun))?;
    if let NodeRequest::Action { unnamed, .. } = &mut what {
        *unnamed = args.positional.into_iter().next();
    }
    Ok(what)
}

fn named(agent: &str, action: &str, inputs: &Map) -> Option<NodeRequest> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    if action.is_empty() || !action.bytes().all(plain) {
        return None;
    }
    let inputs = inputs.iter().filter_map(|(name, value)| {
        let name = Datum::symbol(name.as_str()?);
        Some((name, Datum::from(value)))
    });
    Some(NodeRequest::Action {
        agent: agent.parse().ok()?,
        action: action.to_owned(),
        inputs: inputs.collect(),
        unnamed: None,
    })
}

/// The return of minions for an unknown function.
pub(super) fn missing(fun: &str) -> FunctionResult {
    FunctionResult::failure(format!("'{fun}' is not available."), 1)
}

impl NodeRequest {
    /// The return if an input has no name.
    pub fn nameless(&self) -> Option<FunctionResult> {
        let NodeRequest::Action {
            agent,
            action,
            unnamed: Some(word),
            ..
        } = self
        else {
            return None;
        };
        let text = format!(
            "inputs of an action have names: write name={word} instead of {word}, \
             with the name that the agent {agent} documents for {action}"
        );
        Some(FunctionResult::failure(text, 1))
    }

    /// The agent to send the request to.
    pub fn agent(&self) -> &str {
        match self {
            NodeRequest::Ping => "discovery",
            NodeRequest::Grains | NodeRequest::Refresh => "rpcutil",
            NodeRequest::Action { agent, .. } => agent.as_str(),
        }
    }

    /// The body of the request, for `caller`.
    pub fn body(&self, caller: &str) -> Datum {
        let (action, inputs) = match self {
            NodeRequest::Ping => return "ping".into(),
            NodeRequest::Grains | NodeRequest::Refresh => ("inventory", Vec::new()),
            NodeRequest::Action { action, inputs, .. } => (action.as_str(), inputs.clone()),
        };
        // Without it no server replies, so callers cannot turn it off.
        let process = "process_results";
        let kept = inputs
            .into_iter()
            .filter(|(name, _)| name.as_str() != Some(process));
        let mut data: Vec<_> = kept.collect();
        data.push((Datum::symbol(process), Datum::Bool(true)));
        Datum::Hash(vec![
            (Datum::symbol("agent"), self.agent().into()),
            (Datum::symbol("action"), action.into()),
            (Datum::symbol("caller"), caller.into()),
            (Datum::symbol("data"), Datum::Hash(data)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(fun: &str, words: &[&str], named: Map) -> Map {
        let mut arg: Vec<Value> = words.iter().map(|w| Value::from(*w)).collect();
        if !named.is_empty() {
            let mut named = named;
            named.set("__kwarg__", true);
            arg.push(named.into());
        }
        halite_wire::map! {"fun" => fun, "arg" => arg}
    }

    #[test]
    fn functions_are_agents_and_actions() {
        let inputs = halite_wire::map! {"name" => "bash", "count" => 3, "force" => true};
        let Ok(Call::Ask(what)) = Call::of(&load("package.status", &[], inputs.clone())) else {
            panic!("no action");
        };
        assert_eq!(what.agent(), "package");
        let body = what.body("choria=halite.mcollective");
        assert_eq!(body.get("agent"), Some(&"package".into()));
        assert_eq!(body.get("action"), Some(&"status".into()));
        assert_eq!(
            body.get("caller"),
            Some(&"choria=halite.mcollective".into())
        );
        let data = body.get("data").unwrap();
        assert_eq!(data.get("name"), Some(&"bash".into()));
        assert_eq!(data.get("count"), Some(&Datum::Int(3)));
        assert_eq!(data.get("force"), Some(&Datum::Bool(true)));
        assert_eq!(data.get("process_results"), Some(&Datum::Bool(true)));
        let plain = Call::of(&load("collective.rpc", &["package", "status"], inputs)).unwrap();
        assert_eq!(plain, Call::Ask(what));
        // Functions that are not the gateway's own go to the agent of that name.
        for (fun, own) in [("test.ping", true), ("test.echo", false)] {
            let ping = Call::of(&load(fun, &[], Map::new())) == Ok(Call::Ask(NodeRequest::Ping));
            assert_eq!(ping, own, "{fun}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let said = |load: &Map| match Call::of(load).unwrap_err() {
            FunctionResult {
                value: Value::Str(text),
                retcode: 1,
            } => text,
            _ => panic!("no text"),
        };
        let Ok(Call::Ask(what)) = Call::of(&load("package.status", &["bash"], Map::new())) else {
            panic!("no action");
        };
        let text = halite_gateway::answer::text(&what.nameless().unwrap().value);
        assert!(text.contains("name=bash instead of bash"), "{text}");
        for fun in [
            "ping",
            "a b.c",
            "package.",
            ".status",
            "package.a.b",
            "package.a*",
        ] {
            assert_eq!(
                said(&load(fun, &[], Map::new())),
                format!("'{fun}' is not available.")
            );
        }
        assert!(said(&load("collective.rpc", &["a"], Map::new())).contains("name=value"));
        let several = halite_wire::map! {"fun" => vec!["test.ping".to_owned()]};
        assert!(said(&several).contains("one job each"));
    }

    #[test]
    fn nobody_asks_for_silence() {
        let inputs = halite_wire::map! {"process_results" => false};
        let Ok(Call::Ask(what)) = Call::of(&load("package.status", &[], inputs)) else {
            panic!("no action");
        };
        let body = what.body("uid=0");
        let Some(Datum::Hash(data)) = body.get("data") else {
            panic!("no data");
        };
        assert_eq!(
            data,
            &[(Datum::symbol("process_results"), Datum::Bool(true))]
        );
    }
}
