//! `rabbitmq_cluster`.

use super::said;
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::python;
use halite_wire::map;

const JOINED: &[Arg] = args![host, user = "rabbit", ram_node = None, runas = "root"];

pub const CLUSTER: StateModule = StateModule {
    name: "rabbitmq_cluster",
    functions: &[
        StateFunction::new(
            "joined",
            joined,
            "Ensures that the node is in the cluster of another.",
        )
        .args(JOINED),
        StateFunction::new("join", joined, "The same as joined.").args(JOINED),
    ],
};

fn joined(s: &mut State<'_, '_>) -> Result {
    let node = format!(
        "{}@{}",
        python::str(s.arg("user")),
        python::str(s.arg("host"))
    );
    let status = s.salt("rabbitmq.cluster_status", Vec::new())?;
    if python::str(&status).contains(&node) {
        return Ok(StateOutcome::good("Already in cluster"));
    }
    let changes = old_new("", node.as_str());
    if s.test {
        let text = format!("Node is set to join cluster {node}");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let args = ["host", "user", "ram_node"].map(|name| s.arg(name).clone());
    let kwargs = map! {"runas" => s.arg("runas").clone()};
    let done = s.salt_with("rabbitmq.join_cluster", args, kwargs)?;
    Ok(StateOutcome::good(said(&done, "Join")).changes(changes))
}
