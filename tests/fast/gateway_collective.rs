//! The outward half of the gateway for collectives: a real master, `nats-server`, and scripted nodes.

use halite::sys::procs;
use serde_json::{Value, json};
use testing::collective_nodes::{Generation, Network, Node};
use testing::{Cli, Master, Minion, wait_for, wait_until};

/// A master with the gateway; discovery goes on all the time.
fn master(network: &Network, more: &str) -> Master {
    Master::halite(&format!(
        "gather_job_timeout: 1\ngateways: {{collective: {{{}, inward: false, discovery_interval: 1, \
         discovery_timeout: 1, timeout: 3, {more}}}}}",
        network.settings()
    ))
}

const IDS: [&str; 3] = ["node1.example", "node2.example", "node3.example"];

fn nodes(network: &Network) -> [Node; 3] {
    ["uk", "uk", "de"]
        .iter()
        .zip(IDS)
        .map(|(country, id)| network.node(id, country))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or_else(|_| panic!("three nodes"))
}

/// Waits until so many nodes are targeted by a fact of theirs.
fn settled(cli: &Cli, target: &str, count: usize) {
    wait_until(&format!("{count} nodes by {target}"), || {
        let Ok(all) = cli.ask(&["-G", target, "test.ping"]) else {
            return false;
        };
        let pongs = all.values().filter(|answer| **answer == json!(true));
        pongs.count() == count
    });
}

fn scenario(generation: Generation) {
    let Some(network) = Network::new(generation) else {
        return;
    };
    let nodes = nodes(&network);
    let master = master(&network, "direct_threshold: 2");
    let cli = master.halite_cli();

    let shown = std::process::Command::new(testing::halite_program("halite-master"))
        .arg("-c")
        .arg(master.home.config_dir())
        .arg("--topology")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("gateway-collective"));

    // They wait for the operator.
    let waiting = wait_for("all nodes wait", || {
        let listed = cli.key(&["-l", "un", "--out=json"]).json().ok()?;
        (listed["minions_pre"].as_array()?.len() == 3).then_some(listed)
    });
    assert_eq!(waiting["minions_pre"], json!(IDS));
    assert_eq!(cli.salt(&["*", "test.ping"]).status, Some(2));
    cli.key(&["-y", "-a", IDS[0]]).ok().unwrap();
    cli.key(&["-y", "-a", IDS[1]]).ok().unwrap();
    settled(&cli, "country:uk", 2);
    assert!(nodes[2].asked("rpcutil.inventory").is_empty());
    cli.key(&["-y", "-a", IDS[2]]).ok().unwrap();
    settled(&cli, "gateway:collective", 3);
    let pinged = cli.ask(&["*", "test.ping"]).unwrap();
    assert_eq!(
        pinged,
        json!({IDS[0]: true, IDS[1]: true, IDS[2]: true})
            .as_object()
            .unwrap()
            .clone()
    );

    // Facts are grains, classes too.
    let asked = |words: &[&str]| cli.ask(words).unwrap();
    let grains = &asked(&[IDS[0], "grains.items"])[IDS[0]];
    assert_eq!(grains["country"], "uk");
    assert_eq!(grains["id"], IDS[0]);
    assert_eq!(grains["classes"], json!(["role::uk"]));
    assert_eq!(asked(&["-G", "classes:role::de", "test.ping"]).len(), 1);
    assert_eq!(asked(&["-S", "192.168.7.0/24", "test.ping"]).len(), 3);
    assert_eq!(asked(&[IDS[2], "grains.get", "country"])[IDS[2]], "de");

    // An action for few: each gets a request of its own.
    let done = asked(&["-G", "country:uk", "package.status", "name=bash"]);
    let bash = json!({"name": "bash", "ensure": "5.2"});
    assert_eq!(json!(done), json!({IDS[0]: bash, IDS[1]: bash}));
    let requests = nodes[0].asked("package.status");
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].broadcast && !requests[0].named);
    assert_eq!(requests[0].inputs.str("name"), Some("bash"));
    assert!(nodes[2].asked("package.status").is_empty());

    // For many: one broadcast that names them.
    let done = asked(&["*", "collective.rpc", "package", "status", "name=zsh"]);
    assert_eq!(done.len(), 3);
    let requests = nodes[0].asked("package.status");
    assert!(requests[1].broadcast && requests[1].named);
    // A list is asked one by one.
    let list = IDS.join(",");
    let done = asked(&["-L", &list, "package.status", "name=zsh"]);
    assert_eq!(done.len(), 3);
    assert!(!nodes[0].asked("package.status")[2].broadcast);

    // Who is not accepted hears nothing of a broadcast.
    let fourth = network.node("node4.example", "uk");
    wait_until("the fourth waits", || {
        let listed = cli.key(&["-l", "un", "--out=json"]).json();
        listed.is_ok_and(|listed| listed["minions_pre"] == json!(["node4.example"]))
    });
    assert_eq!(asked(&["*", "package.status", "name=zsh"]).len(), 3);
    assert!(fourth.asked("package.status").is_empty());
    drop(fourth);

    // Every code.
    for (code, words) in [
        (1, "not allowed"),
        (2, "no such action"),
        (3, "is missing"),
        (4, "not valid"),
        (5, "unexpected error"),
    ] {
        let name = format!("name=code{code}");
        let words_of = [IDS[0], "package.status", &name];
        let ran = cli.salt(&[&words_of[..], &["--out=json"]].concat());
        assert_eq!(ran.status, Some(1), "{}", ran.describe());
        let told = &ran.returns().unwrap()[IDS[0]];
        assert_eq!(told["statuscode"], code, "{told}");
        let error = told["error"].as_str().unwrap();
        assert!(
            error.contains(words) && error.contains("as you wish"),
            "{error}"
        );
        assert_eq!(told["data"]["name"], format!("code{code}"));
    }
    let told = &asked(&[IDS[0], "package.remove"])[IDS[0]];
    assert_eq!(told["statuscode"], 2);

    // What is answered without asking.
    let told = asked(&[IDS[0], "package.status", "bash"]);
    assert!(
        told[IDS[0]].as_str().unwrap().contains("name=bash"),
        "{told:?}"
    );
    let told = asked(&[IDS[0], "service.status", "name=cron"]);
    let text = told[IDS[0]].as_str().unwrap();
    assert!(
        text.starts_with("'service.status' is not available."),
        "{text}"
    );
    let names = &asked(&[IDS[0], "sys.list_functions"])[IDS[0]];
    assert!(names.as_array().unwrap().contains(&json!("package.*")));

    // Lies and echoes.
    let done = asked(&[IDS[0], "package.status", "name=forged"]);
    assert_eq!(done[IDS[0]], "the truth");
    let done = asked(&[IDS[0], "package.status", "name=twice"]);
    assert_eq!(done[IDS[0]], "once");

    // Nobody signs in at the ports of Salt under the id of a node.
    let _thief = Minion::halite(&master, IDS[0], "");
    wait_until("the thief's key is denied", || {
        let listed = cli.key(&["-l", "den", "--out=json"]).json();
        listed.is_ok_and(|listed| listed["minions_denied"] == json!([IDS[0]]))
    });
    let done = asked(&["*", "package.status", "name=zsh"]);
    assert_eq!(done[IDS[0]]["name"], "zsh");

    // Silence.
    let told = asked(&[IDS[0], "package.status", "name=silent"]);
    assert_eq!(told[IDS[0]], "no answer within 3 s");
}

#[test]
fn nodes_of_choria_are_minions() {
    scenario(Generation::G2);
}

#[test]
fn nodes_of_the_first_choria_are_minions() {
    scenario(Generation::G1);
}

#[test]
fn nodes_of_mcollective_are_minions() {
    scenario(Generation::Psk);
}

/// Nodes that go, a gateway that is killed, a broker that is away.
#[test]
fn whatever_goes_comes_again() {
    let Some(mut network) = Network::new(Generation::G2) else {
        return;
    };
    let first = network.node(IDS[0], "uk");
    let second = network.node(IDS[1], "uk");
    let master = master(&network, "auto_accept: true");
    let cli = master.halite_cli();
    settled(&cli, "country:uk", 2);
    let present = |expected: Value| {
        wait_until(&format!("{expected} are present"), || {
            let ran = cli.runner(&["manage.present", "--out=json"]);
            ran.json().is_ok_and(|present| present == expected)
        });
    };
    present(json!([IDS[0], IDS[1]]));
    drop(second);
    present(json!([IDS[0]]));
    let done = cli.ask(&["*", "package.status", "name=bash"]).unwrap();
    assert_eq!(done[IDS[0]]["ensure"], "5.2");

    // The gateway is killed: its successor finds everybody.
    let gateway = || {
        let family = procs::family(master.id() as u32).unwrap();
        let mut all = family.iter();
        let found = all.find(|p| p.title.contains("gateway-collective"));
        found.map(|process| process.pid as i32)
    };
    let pid = gateway().unwrap();
    let signal = nix::sys::signal::Signal::SIGKILL;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    wait_until("there is another gateway", || {
        gateway().is_some_and(|new| new != pid)
    });
    settled(&cli, "country:uk", 1);

    // The broker goes: jobs are told so at once.
    network.nats.kill();
    let told = wait_for("it is told that the broker is away", || {
        let told = cli.ask(&[IDS[0], "package.status", "name=bash"]).ok()?;
        let text = told.get(IDS[0])?.as_str()?.to_owned();
        text.contains("cannot be reached").then_some(text)
    });
    assert!(told.contains("nothing was sent"), "{told}");
    present(json!([]));
    network.nats.restart();
    present(json!([IDS[0]]));
    drop(first);
}

/// The master serves its minions whatever is wrong with the keys of a collective; `--check-config` tells it.
#[test]
fn a_gateway_without_its_keys_leaves_the_master_alone() {
    let options = "gateways: {collective: {security: psk, psk_file: /nonexistent/psk}}";
    let master = Master::halite(options);
    let cli = master.halite_cli();
    let up = cli.runner(&["manage.up", "--out=json"]);
    assert_eq!(up.json(), Ok(json!([])), "{}", up.describe());
    let checked = std::process::Command::new(testing::halite_program("halite-master"))
        .arg("-c")
        .arg(master.home.config_dir())
        .arg("--check-config")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        said.contains("gateways:collective:psk_file: /nonexistent/psk"),
        "{said}"
    );
}
