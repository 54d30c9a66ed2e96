//! Salt minions as nodes of a collective: a real master with minions, RabbitMQ, and stock `mco` with each security plugin.

use serde_json::{Value, json};
use testing::check::same;
use testing::cli::Ran;
use testing::mcollective::{Network, Plugin};
use testing::{Checks, Master, Minion, RabbitMq, wait_until};

const NODES: [&str; 3] = ["web1.example", "web2.example", "db1.example"];

/// A master whose minions are nodes of a network, with the minions.
fn fleet(network: &Network, caller: &str) -> (Master, Vec<Minion>) {
    let master = Master::halite(&format!(
        "auto_accept: true\n\
         nodegroups:\n  web: 'web*'\n  uk: 'G@country:uk'\n\
         publisher_acl:\n  '{caller}':\n    - test.*\n    - 'N@web':\n      - grains.get\n\
         gateways:\n  collective:\n    outward: false\n{}",
        network.settings()
    ));
    let minions = NODES.map(|id| {
        let country = if id == "web2.example" { "de" } else { "uk" };
        let grains = format!("grains: {{country: {country}, rack: 12, roles: [{id}, common]}}");
        Minion::halite(&master, id, &grains)
    });
    (master, minions.into())
}

/// The names that a command printed, sorted.
fn names(ran: &Ran) -> Vec<String> {
    let lines = ran.out.lines().map(|line| line.split_whitespace().next());
    let words = lines.flatten().map(str::to_owned);
    let mut names: Vec<String> = words.filter(|w| NODES.contains(&w.as_str())).collect();
    names.sort_unstable();
    names
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    names.sort_unstable();
    names
}

/// The answers of `mco rpc --json`, by sender.
fn answers(ran: &Ran) -> Result<Vec<(String, Value)>, String> {
    let Value::Array(rows) = ran.json()? else {
        return Err(ran.describe());
    };
    let mut all = Vec::new();
    for row in rows {
        let sender = row["sender"].as_str().ok_or_else(|| ran.describe())?;
        all.push((sender.to_owned(), row.clone()));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

fn found(network: &Network, words: &[&str], expected: &[&str]) -> Result<(), String> {
    let mut all = vec!["find"];
    all.extend(words);
    let ran = network.mco(&all);
    same(names(&ran), sorted(expected)).map_err(|why| format!("{why}\n{}", ran.describe()))
}

/// Waits until all minions are nodes.
fn all_there(network: &Network) {
    wait_until("all minions are nodes", || {
        names(&network.mco(&["find"])) == sorted(&NODES)
    });
}

fn rpc(network: &Network, words: &[&str]) -> Ran {
    let mut all = vec!["rpc", "--json"];
    all.extend(words);
    network.mco(&all)
}

/// The interface as clients have it, with an action that nodes do not know, and with an input that is not checked.
fn careless(ddl: &str) -> String {
    let lax = ddl.replace(
        ":validation  => '^[A-Za-z_]\\w*\\.[A-Za-z_]\\w*$'",
        ":validation  => '.'",
    );
    assert_ne!(lax, ddl);
    let lax = lax.replacen(":optional    => false", ":optional    => true", 1);
    format!("{lax}\naction \"reboot\", :description => \"none\" do\n    display :always\nend\n")
}

fn ddl() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/packaging/collective/halite.ddl"
    );
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn psk() {
    let Some(broker) = RabbitMq::start(&["mcollective"]) else {
        return;
    };
    let Some(network) = Network::new(Plugin::Psk, broker.port) else {
        return;
    };
    network.agent("halite", &ddl(), "");
    let caller = format!("uid={}", nix::unistd::getuid());
    let (master, _minions) = fleet(&network, &caller);
    all_there(&network);

    let mut checks = Checks::default();
    checks.run("ping", || {
        let ran = network.mco(&["ping"]);
        same(names(&ran), sorted(&NODES))?;
        same(ran.status, Some(0))
    });
    for (words, expected) in [
        (
            &["-F", "country=uk"][..],
            &["web1.example", "db1.example"][..],
        ),
        (&["-F", "country=/^d/"], &["web2.example"]),
        (&["-F", "rack>=12"], &NODES),
        (&["-F", "rack>12"], &[]),
        (&["-F", "roles=common"], &NODES),
        (
            &["-F", "kernel=Linux", "-F", "country!=uk"],
            &["web2.example"],
        ),
        (&["-C", "web"], &["web1.example", "web2.example"]),
        (&["-C", "/^u/"], &["web1.example", "db1.example"]),
        (&["-C", "none"], &[]),
        (&["-A", "halite"], &NODES),
        (&["-A", "puppet"], &[]),
        (&["-I", "db1.example"], &["db1.example"]),
        (&["-I", "/^web/"], &["web1.example", "web2.example"]),
        (&["-W", "web country=uk"], &["web1.example"]),
        (&["-S", "web and country=de"], &["web2.example"]),
        (
            &["-S", "not web or country=de"],
            &["web2.example", "db1.example"],
        ),
        (
            &["-S", "fact('country').value=uk"],
            &["web1.example", "db1.example"],
        ),
        (&["-S", "collective('mcollective').member=true"], &NODES),
    ] {
        checks.run(&format!("find {words:?}"), || {
            found(&network, words, expected)
        });
    }
    checks.run("nobody is found", || {
        let ran = network.mco(&["ping", "-F", "country=none"]);
        same(names(&ran), Vec::new())?;
        let ran = rpc(&network, &["rpcutil", "ping", "-C", "none"]);
        same(ran.status, Some(1))
    });
    checks.run("inventory", || {
        let text = network.mco(&["inventory", "web1.example"]).ok()?;
        for line in [
            "Inventory for web1.example:",
            "Main Collective: mcollective",
            "country => uk",
            "rack => 12",
        ] {
            text.contains(line)
                .then_some(())
                .ok_or(format!("no {line}: {text}"))?;
        }
        for word in ["discovery", "halite", "rpcutil", "web", "uk", "fact"] {
            let mut words = text.split_whitespace();
            words
                .any(|w| w == word)
                .then_some(())
                .ok_or(format!("no {word}: {text}"))?;
        }
        Ok(())
    });
    rpcutil(&mut checks, &network);
    functions(&mut checks, &network, &master, &caller);
    wrong(&mut checks, &network);
    checks.run("minions that leave are nodes no longer", || {
        master.halite_cli().key(&["-y", "-d", "db1.example"]).ok()?;
        wait_until("the node is gone", || {
            names(&network.mco(&["find"])) == sorted(&NODES[..2])
        });
        Ok(())
    });
    checks.finish();
}

fn rpcutil(checks: &mut Checks, network: &Network) {
    let one = |words: &[&str]| -> Result<Value, String> {
        let mut all = words.to_vec();
        all.extend(["-I", "web1.example"]);
        let ran = rpc(network, &all);
        let mut all = answers(&ran)?;
        same(all.len(), 1)?;
        same(
            ran.status,
            Some(i32::from(all[0].1["statuscode"] != json!(0)) * 2),
        )?;
        Ok(all.remove(0).1)
    };
    checks.run("rpcutil ping of all", || {
        let all = answers(&rpc(network, &["rpcutil", "ping"]))?;
        same(all.len(), 3)?;
        let good = all
            .iter()
            .all(|(_, row)| row["data"]["pong"].as_i64() > Some(1_600_000_000));
        same(good, true)
    });
    checks.run("rpcutil get_fact", || {
        let row = one(&["rpcutil", "get_fact", "fact=country"])?;
        same(
            row["data"].clone(),
            json!({"fact": "country", "value": "uk"}),
        )
    });
    checks.run("rpcutil get_facts", || {
        let row = one(&["rpcutil", "get_facts", "facts=country,rack,nothing"])?;
        let expected = json!({"country": "uk", "rack": "12", "nothing": null});
        same(row["data"]["values"].clone(), expected)
    });
    checks.run("rpcutil collective_info", || {
        let row = one(&["rpcutil", "collective_info"])?;
        same(row["data"]["collectives"].clone(), json!(["mcollective"]))
    });
    checks.run("rpcutil daemon_stats", || {
        let row = one(&["rpcutil", "daemon_stats"])?;
        let number = |name: &str| row["data"][name].as_i64().unwrap_or(-1);
        same(number("validated") > 10 && number("filtered") > 5, true)?;
        same(number("replies") > 5 && number("pid") > 1, true)?;
        same(number("unvalidated"), 0)
    });
    checks.run("rpcutil agent_inventory", || {
        let row = one(&["rpcutil", "agent_inventory"])?;
        same(row["data"]["agents"].as_array().map(Vec::len), Some(3))?;
        same(row["data"]["agents"][1]["agent"].clone(), json!("halite"))
    });
    checks.run("rpcutil get_config_item", || {
        let row = one(&["rpcutil", "get_config_item", "item=main_collective"])?;
        same(row["data"]["value"].clone(), json!("mcollective"))?;
        let row = one(&["rpcutil", "get_config_item", "item=pluginconf"])?;
        same(row["statuscode"].clone(), json!(1))?;
        same(
            row["statusmsg"].clone(),
            json!("Unknown config property pluginconf"),
        )
    });
    checks.run("rpcutil get_data", || {
        let row = one(&["rpcutil", "get_data", "source=fact", "query=country"])?;
        same(row["data"]["value"].clone(), json!("uk"))?;
        let row = one(&["rpcutil", "get_data", "source=fstat", "query=/etc/passwd"])?;
        same(row["statuscode"].clone(), json!(5))
    });
}

fn functions(checks: &mut Checks, network: &Network, master: &Master, caller: &str) {
    checks.run("a function on all", || {
        let ran = rpc(network, &["halite", "run", "function=test.ping"]);
        same(ran.status, Some(0)).map_err(|why| format!("{why}\n{}", ran.describe()))?;
        let all = answers(&ran)?;
        same(all.len(), 3)?;
        let jid = all[0].1["data"]["jid"].clone();
        for (_, row) in &all {
            let expected = json!({"return": "true", "retcode": 0, "success": true, "jid": jid});
            same(row["data"].clone(), expected)?;
        }
        // One job, under the name of the caller.
        let jid = jid.as_str().unwrap_or_default();
        let shown = master
            .halite_cli()
            .runner(&["jobs.list_job", jid, "--out=json"]);
        let job = shown.json()?;
        same(job["User"].clone(), json!(caller))?;
        same(job["Minions"].as_array().map(Vec::len), Some(3))?;
        same(job["Result"].as_object().map(serde_json::Map::len), Some(3))
    });
    checks.run("arguments", || {
        let words = [
            "halite",
            "run",
            "function=test.arg",
            "args=[\"a\", 2]",
            "kwargs={\"k\": [1, null]}",
            "-I",
            "web1.example",
        ];
        let all = answers(&rpc(network, &words))?;
        let text = all[0].1["data"]["return"].as_str().unwrap_or_default();
        let back: Value = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
        same(back["args"].clone(), json!(["a", 2]))?;
        same(back["kwargs"]["k"].clone(), json!([1, null]))
    });
    checks.run("a batch", || {
        let words = ["halite", "ping", "--batch", "1"];
        let ran = rpc(network, &words);
        let all = answers(&ran)?;
        same(all.len(), 3).map_err(|why| format!("{why}\n{}", ran.describe()))?;
        same(
            all.iter()
                .all(|(_, row)| row["data"]["pong"] == json!(true)),
            true,
        )
    });
    checks.run("a function that fails", || {
        let words = [
            "halite",
            "run",
            "function=test.exception",
            "-I",
            "web1.example",
        ];
        let ran = rpc(network, &words);
        let all = answers(&ran)?;
        same(all[0].1["statuscode"].clone(), json!(1))?;
        same(ran.status, Some(2))
    });
    checks.run("a function that takes too long", || {
        let words = [
            "halite",
            "run",
            "function=test.sleep",
            "args=[60]",
            "timeout=1",
            "-I",
            "web1.example",
        ];
        let all = answers(&rpc(network, &words))?;
        same(all[0].1["statuscode"].clone(), json!(5))?;
        let text = all[0].1["statusmsg"].as_str().unwrap_or_default();
        same(text.contains("no return within 1 seconds"), true)
    });
    checks.run("info", || {
        let words = ["halite", "info", "-I", "web1.example"];
        let all = answers(&rpc(network, &words))?;
        same(all[0].1["data"]["nodegroups"].clone(), json!(["uk", "web"]))
    });
    checks.run("a caller without the permission", || {
        let ran = rpc(
            network,
            &["halite", "run", "function=cmd.run", "args=[\"id\"]"],
        );
        let all = answers(&ran)?;
        same(all.len(), 3)?;
        for (_, row) in &all {
            same(row["statuscode"].clone(), json!(1))?;
            same(row["statusmsg"].clone(), json!("not authorised"))?;
        }
        same(ran.status, Some(2))
    });
    checks.run("a permission for some minions", || {
        let words = ["halite", "run", "function=grains.get", "args=[\"country\"]"];
        let ran = rpc(network, &words);
        let all = answers(&ran)?;
        let codes: Vec<_> = all
            .iter()
            .map(|(_, row)| row["statuscode"].clone())
            .collect();
        // db1, web1, web2.
        same(codes, vec![json!(1), json!(0), json!(0)])?;
        same(all[1].1["data"]["return"].clone(), json!("\"uk\""))
    });
}

/// Requests that a careful client would not even send.
fn wrong(checks: &mut Checks, network: &Network) {
    network.agent("halite", &careless(&ddl()), "");
    for (words, code, text) in [
        (
            &["halite", "reboot"][..],
            2,
            "Unknown action 'reboot' for agent 'halite'",
        ),
        (
            &["halite", "run"],
            3,
            "Action run needs a function argument",
        ),
        (
            &["halite", "run", "function=nonsense"],
            4,
            "Cannot validate input function",
        ),
    ] {
        checks.run(&format!("{words:?}"), || {
            let ran = rpc(network, words);
            let all = answers(&ran)?;
            same(all.len(), 3).map_err(|why| format!("{why}\n{}", ran.describe()))?;
            for (_, row) in &all {
                same(row["statuscode"].clone(), json!(code))?;
                let said = row["statusmsg"].as_str().unwrap_or_default();
                same(said.contains(text), true).map_err(|_| said.to_owned())?;
            }
            same(ran.status, Some(2))
        });
    }
    network.agent("halite", &ddl(), "");
}

/// What every plugin must do.
fn short(plugin: Plugin) {
    let Some(broker) = RabbitMq::start(&["mcollective"]) else {
        return;
    };
    let Some(network) = Network::new(plugin, broker.port) else {
        return;
    };
    network.agent("halite", &ddl(), "");
    let (_master, _minions) = fleet(&network, "cert=rip");
    all_there(&network);
    let mut checks = Checks::default();
    checks.run("find", || {
        found(&network, &["-S", "web and country=de"], &["web2.example"])
    });
    checks.run("inventory", || {
        let text = network.mco(&["inventory", "db1.example"]).ok()?;
        same(text.contains("country => uk"), true)
    });
    checks.run("a function", || {
        let ran = rpc(
            &network,
            &["halite", "run", "function=test.echo", "args=[\"ö\"]"],
        );
        let all = answers(&ran)?;
        same(all.len(), 3).map_err(|why| format!("{why}\n{}", ran.describe()))?;
        same(
            all.iter()
                .all(|(_, row)| row["data"]["return"] == json!("\"ö\"")),
            true,
        )
    });
    checks.run("a directed one", || {
        let ran = rpc(
            &network,
            &["rpcutil", "get_fact", "fact=country", "-I", "web2.example"],
        );
        let all = answers(&ran)?;
        same(all[0].1["data"]["value"].clone(), json!("de"))
    });
    checks.run("a caller without the permission", || {
        let ran = rpc(
            &network,
            &["halite", "run", "function=cmd.run", "args=[\"id\"]"],
        );
        let all = answers(&ran)?;
        same(all.len(), 3)?;
        same(
            all.iter()
                .all(|(_, row)| row["statusmsg"] == json!("not authorised")),
            true,
        )
    });
    checks.finish();
}

#[test]
fn ssl_marshal() {
    short(Plugin::Ssl("marshal"));
}

#[test]
fn ssl_yaml() {
    short(Plugin::Ssl("yaml"));
}

#[test]
fn aes_marshal() {
    short(Plugin::Aes("marshal"));
}

#[test]
fn aes_yaml() {
    short(Plugin::Aes("yaml"));
}
