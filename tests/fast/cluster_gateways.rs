//! A gateway that reaches its agents through a broker runs at one master of a cluster, and at another one when that ends.

use serde_json::{Value, json};
use testing::cluster::Cluster;
use testing::collective_nodes::{Generation, Network, Node};
use testing::{Master, wait_until};

const IDS: [&str; 2] = ["node1.example", "node2.example"];

/// What a master says about the gateway: `runs` or `waits`.
fn gateway(master: &Master) -> Value {
    let ran = master
        .halite_cli()
        .runner(&["cluster.status", "--out=json"]);
    ran.json().unwrap_or_default()["gateways"]["collective"].clone()
}

fn asked(nodes: &[Node]) -> Vec<usize> {
    let times = nodes.iter().map(|node| node.asked("package.status").len());
    times.collect()
}

#[test]
fn one_master_runs_the_gateway_to_collectives() {
    let Some(network) = Network::new(Generation::Psk) else {
        return;
    };
    let nodes = IDS.map(|id| network.node(id, "uk"));
    let lines = format!(
        "gateways: {{collective: {{{}, inward: false, discovery_interval: 1, discovery_timeout: 1, timeout: 3, auto_accept: true}}}}",
        network.settings()
    );
    let Some(mut cluster) = Cluster::start(&lines) else {
        return;
    };
    let [one, two] = &cluster.masters;
    wait_until("one of them runs it", || {
        [gateway(one), gateway(two)].contains(&json!("runs"))
    });
    let running = usize::from(gateway(one) != "runs");
    assert_eq!(gateway(&cluster.masters[1 - running]), "waits");
    let status = |master: &Master| {
        let words = ["-G", "country:uk", "package.status", "name=bash"];
        let said = master.halite_cli().ask(&words).unwrap_or_default();
        let bash = json!({"name": "bash", "ensure": "5.2"});
        json!(said) == json!({IDS[0]: bash, IDS[1]: bash})
    };
    // Both reach the nodes, and know that they are there; each is asked once.
    for (n, master) in cluster.masters.iter().enumerate() {
        wait_until("its nodes are known", || {
            let ran = master
                .halite_cli()
                .runner(&["manage.present", "--out=json"]);
            ran.json().is_ok_and(|found| found == json!(IDS))
        });
        wait_until("their grains are known", || {
            let words = ["-G", "country:uk", "test.ping"];
            let said = master.halite_cli().ask(&words).unwrap_or_default();
            said.len() == 2 && said.values().all(|pong| *pong == json!(true))
        });
        assert!(status(master), "{n}");
        assert_eq!(asked(&nodes), [n + 1, n + 1]);
    }
    cluster.masters[running].kill();
    let left = &cluster.masters[1 - running];
    wait_until("the other one runs it", || gateway(left) == "runs");
    // The nodes are who they were.
    wait_until("it reaches the nodes", || status(left));
    let ran = left.halite_cli().key(&["-l", "all", "--out=json"]);
    let keys = ran.json().expect("keys can be listed");
    assert_eq!(keys["minions"], json!(IDS));
    assert_eq!(keys["minions_pre"], json!([]));
}
