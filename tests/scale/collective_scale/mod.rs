//! Five thousand simulated nodes of a collective at one gateway: found, accepted, taken stock of, and asked, all at once and one
//! by one. Figures are printed; nothing is judged by a clock.

mod swarm;

use halite::map;
use halite::target::expand_nodegroup;
use halite::wire::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use swarm::{Swarm, TENTH, identity};
use testing::collective_nodes::{Generation, Network};
use testing::scale::{Gateway, job, patiently, run};
use testing::{Master, wait_until};

const NODES: usize = 5000;
const JOBS: u32 = 3;
/// Nodes that are asked by their names.
const LISTED: usize = 1000;

fn value(tally: &AtomicUsize) -> usize {
    tally.load(Ordering::Relaxed)
}

#[test]
fn five_thousand_nodes() {
    let Some(network) = Network::new(Generation::G2) else {
        return;
    };
    let swarm = Swarm::start(&network, NODES);
    let tally = &swarm.tally;
    wait_until("the swarm is connected", || tally.up());

    let begin = Instant::now();
    let master = Master::halite(&format!(
        "gather_job_timeout: 30\ngateways: {{collective: {{{}, inward: false, discovery_interval: 5, \
         discovery_timeout: 3, timeout: 60, direct_threshold: 1000}}}}",
        network.settings()
    ));
    let mut gateway = Gateway::find(&master, "collective");
    let empty = gateway.memory();
    let config = halite::config::load_master(&master.home.config_dir()).unwrap();
    let cli = master.halite_cli();

    // Found: they wait for the operator.
    let pending = master.home.pki().join("minions_pre");
    let entries = || std::fs::read_dir(&pending).map_or(0, Iterator::count);
    patiently("all nodes wait", || entries() == NODES);
    let took = begin.elapsed();
    println!(
        "{NODES} nodes found in {took:.2?}: {:.0}/s, gateway {:.0} ms CPU, memory {empty} -> {} KiB PSS",
        NODES as f64 / took.as_secs_f64(),
        gateway.spent(),
        gateway.memory()
    );
    assert_eq!(value(&tally.inventories), 0);

    // Accepted: they tell what they are.
    let begin = Instant::now();
    cli.key(&["-y", "-A"]).ok().unwrap();
    let accepted = begin.elapsed();
    patiently("all nodes have told what they are", || {
        value(&tally.inventories) >= NODES
    });
    println!(
        "accepted by halite-key in {accepted:.2?}, all inventories after {:.2?}, gateway {:.0} ms CPU, memory {} KiB PSS",
        begin.elapsed(),
        gateway.spent(),
        gateway.memory()
    );
    let all: Vec<String> = (0..NODES).map(identity).collect();
    let tenth: Vec<String> = (0..NODES).step_by(10).map(identity).collect();
    let group = expand_nodegroup(TENTH, &config).unwrap();
    let targeted = |expr: &str| {
        let fleet = halite::client::fleet::Fleet::open(&config).unwrap();
        let target = halite::target::Target::parse(&expr.into(), "compound", None).unwrap();
        target.expected(&fleet.inventory(), &config).minions.len()
    };
    patiently("classes are targeted", || targeted(&group) == tenth.len());
    patiently("facts are targeted", || {
        targeted("G@country:uk") == NODES / 4
    });

    // Asked.
    let listed: Vec<String> = all.iter().take(LISTED).cloned().collect();
    let everybody = || Value::from("*");
    let bash = || vec![Value::from(map! {"__kwarg__" => true, "name" => "bash"})];
    for (what, job, ids, direct) in [
        (
            "test.ping to all",
            job("test.ping", vec![], everybody(), "glob"),
            &all,
            0,
        ),
        (
            "an action to all, by broadcast",
            job("package.status", bash(), everybody(), "glob"),
            &all,
            0,
        ),
        (
            "an action to the nodes of a class, directly",
            job("package.status", bash(), group.as_str().into(), "compound"),
            &tenth,
            tenth.len(),
        ),
        (
            "an action to a list, directly",
            job("package.status", bash(), listed.clone().into(), "list"),
            &listed,
            LISTED,
        ),
    ] {
        let before = value(&tally.direct);
        gateway.spent();
        let took: Duration = (0..JOBS).map(|_| run(&config, &job, ids)).sum();
        assert_eq!(
            value(&tally.direct) - before,
            direct * JOBS as usize,
            "{what}"
        );
        println!(
            "{what} ({}): {:.2?} until all are in the job cache, gateway {:.0} ms CPU a job, memory {} KiB PSS",
            ids.len(),
            took / JOBS,
            gateway.spent() / f64::from(JOBS),
            gateway.memory()
        );
    }
    assert_eq!(value(&tally.broken), 0);
    let each = gateway.memory().saturating_sub(empty) as f64 / NODES as f64;
    println!("{each:.1} KiB a node");
    assert!(each < 10.0, "{each} KiB a node");
}
