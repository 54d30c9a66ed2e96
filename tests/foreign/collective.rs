//! MCollective's own servers as minions of a real master: `mcollectived` 2.12.5 of Debian over `rabbitmq-server`, with every
//! security plugin.

use serde_json::{Value, json};
use testing::mcollective::{Network, Node, Plugin};
use testing::rabbitmq::RabbitMq;
use testing::{Master, wait_for, wait_until};

/// An agent with a DDL, as operators write them.
const DDL: &str = "\
metadata :name => 'package', :description => 'Packages', :author => 'halite', :license => 'Apache-2.0',
         :version => '1.0', :url => 'https://example.org', :timeout => 10

action 'status', :description => 'State of a package' do
  input :name, :prompt => 'Name', :description => 'Name of a package', :type => :string,
        :validation => '^[a-z]+$', :optional => false, :maxlength => 30
  output :ensure, :description => 'Its version', :display_as => 'Version'
end

action 'purge', :description => 'Declared, but not there' do
end
";
const RUBY: &str = "\
module MCollective
  module Agent
    class Package < RPC::Agent
      action 'status' do
        case request[:name]
        when 'bash' then reply[:ensure] = '5.2'
        when 'crash' then raise 'this was not expected'
        else reply.fail! 'there is no such package'
        end
      end
    end
  end
end
";

const IDS: [&str; 3] = ["node1.example", "node2.example", "node3.example"];

/// Three servers of a network.
fn nodes(network: &Network) -> Vec<Node> {
    network.agent("package", DDL, RUBY);
    let countries = ["uk", "uk", "de"].iter().zip(IDS);
    countries
        .map(|(country, id)| {
            let facts = format!("country: {country}\ncores: 4\n");
            network.server(id, &facts, &["role::web", country], "")
        })
        .collect()
}

fn scenario(plugin: Plugin) {
    let Some(broker) = RabbitMq::start(&["mcollective"]) else {
        return;
    };
    let Some(network) = Network::new(plugin, broker.port) else {
        return;
    };
    let _nodes = nodes(&network);
    let master = Master::halite(&format!(
        "gather_job_timeout: 2\ngateways:\n  collective:\n{}    inward: false\n    discovery_interval: 2\n    \
         discovery_timeout: 2\n    timeout: 10\n    direct_threshold: 2\n",
        network.settings()
    ));
    let cli = master.halite_cli();

    // They wait for the operator, who accepts them.
    wait_until("all servers wait", || {
        let listed = cli.key(&["-l", "un", "--out=json"]).json();
        listed.is_ok_and(|listed| listed["minions_pre"] == json!(IDS))
    });
    cli.key(&["-y", "-A"]).ok().unwrap();
    let asked = |words: &[&str]| -> Value { cli.ask(words).unwrap().into() };
    let all = |value: Value| -> Value {
        IDS.iter()
            .map(|id| ((*id).to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    wait_until("all are targeted by their facts", || {
        cli.ask(&["-G", "cores:4", "test.ping"])
            .is_ok_and(|done| Value::from(done) == all(json!(true)))
    });

    // Facts, classes, version.
    let grains = &asked(&[IDS[2], "grains.items"])[IDS[2]];
    assert_eq!(grains["country"], "de");
    assert_eq!(grains["collective_version"], "2.12.5");
    assert_eq!(grains["classes"], json!(["de", "role::web"]));
    assert_eq!(grains["agents"], json!(["discovery", "package", "rpcutil"]));

    // Directly to two, by broadcast to three.
    let told = asked(&["-G", "country:uk", "rpcutil.get_fact", "fact=country"]);
    let uk = json!({"fact": "country", "value": "uk"});
    assert_eq!(told, json!({IDS[0]: uk, IDS[1]: uk}));
    let told = asked(&["*", "package.status", "name=bash"]);
    assert_eq!(told, all(json!({"ensure": "5.2"})));
    let told = asked(&["-L", &IDS.join(","), "package.status", "name=bash"]);
    assert_eq!(told, all(json!({"ensure": "5.2"})));

    // Every status code that a server gives.
    for (words, code, part) in [
        (
            &["package.status", "name=none"][..],
            1,
            "there is no such package",
        ),
        (&["package.purge"], 2, "no such action"),
        (&["package.remove"], 4, "not declared in the DDL"),
        (&["rpcutil.get_fact"], 4, "fact"),
        (&["package.status", "name=BASH"], 4, "not valid"),
        (
            &["package.status", "name=crash"],
            5,
            "this was not expected",
        ),
    ] {
        let line = [&[IDS[0]], words, &["--out=json"]].concat();
        let ran = cli.salt(&line);
        assert_eq!(ran.status, Some(1), "{}", ran.describe());
        let told = &ran.returns().unwrap()[IDS[0]];
        assert_eq!(told["statuscode"], code, "{words:?}: {told}");
        assert!(
            told["error"].as_str().unwrap().contains(part),
            "{words:?}: {told}"
        );
    }
    let told = asked(&["*", "collective.rpc", "rpcutil", "ping"]);
    for id in IDS {
        assert!(told[id]["pong"].is_i64(), "{told}");
    }
}

#[test]
fn servers_with_psk() {
    scenario(Plugin::Psk);
}

#[test]
fn servers_with_ssl_in_marshal() {
    scenario(Plugin::Ssl("marshal"));
}

#[test]
fn servers_with_ssl_in_yaml() {
    scenario(Plugin::Ssl("yaml"));
}

#[test]
fn servers_with_aes_in_marshal() {
    scenario(Plugin::Aes("marshal"));
}

#[test]
fn servers_with_aes_in_yaml() {
    scenario(Plugin::Aes("yaml"));
}

/// A server that ends is gone, one that comes later is found.
#[test]
fn servers_come_and_go() {
    let Some(broker) = RabbitMq::start(&["mcollective"]) else {
        return;
    };
    let Some(network) = Network::new(Plugin::Psk, broker.port) else {
        return;
    };
    let first = network.server(IDS[0], "country: uk\n", &[], "");
    let master = Master::halite(&format!(
        "gateways:\n  collective:\n{}    inward: false\n    auto_accept: true\n    discovery_interval: 2\n    discovery_timeout: 1\n",
        network.settings()
    ));
    let cli = master.halite_cli();
    let present = |ids: Value| {
        wait_until(&format!("{ids} are present"), || {
            let ran = cli.runner(&["manage.present", "--out=json"]);
            ran.json().is_ok_and(|present| present == ids)
        });
    };
    present(json!([IDS[0]]));
    let second = network.server(IDS[1], "country: uk\n", &[], "registerinterval = 1");
    present(json!([IDS[0], IDS[1]]));
    drop(first);
    present(json!([IDS[1]]));
    let told = wait_for("the second answers", || {
        cli.ask(&["-G", "country:uk", "rpcutil.ping"])
            .ok()
            .filter(|told| told.contains_key(IDS[1]))
    });
    assert!(told[IDS[1]]["pong"].is_i64(), "{told:?}");
    drop(second);
}
