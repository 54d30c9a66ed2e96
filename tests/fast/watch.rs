//! The dashboard and the alerts name only metrics that a master has.

use halite::crypto::PrivateKey;
use halite::wire::{Value, yaml};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use testing::harness::{Master, eventually, free_ports};

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of metrics of this program in a query.
fn names(query: &str) -> impl Iterator<Item = String> + '_ {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = query.split(move |c| !word(c));
    words
        .filter(|w| w.starts_with("halite_"))
        .map(str::to_owned)
}

/// Every query of a dashboard: what stands under `expr`, or in a `query` of a variable.
fn queries(json: &serde_json::Value, out: &mut Vec<String>) {
    match json {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if ["expr", "query", "definition"].contains(&key.as_str()) => {
                        out.push(text.to_owned());
                    }
                    _ => queries(value, out),
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|item| queries(item, out)),
        _ => {}
    }
}

fn of_dashboard() -> BTreeSet<String> {
    let json: serde_json::Value = serde_json::from_str(&shipped("grafana/halite.json")).unwrap();
    let mut all = Vec::new();
    queries(&json, &mut all);
    let panels = json["panels"].as_array().unwrap();
    let empty = |p: &&serde_json::Value| p["type"] != "row" && p["targets"][0]["expr"].is_null();
    assert_eq!(panels.iter().find(empty), None);
    all.iter().flat_map(|query| names(query)).collect()
}

fn of_alerts() -> BTreeSet<String> {
    let rules = yaml::parse(&shipped("prometheus/alerts.yml")).unwrap();
    let at = |value: &Value, key: &str| value.as_map().and_then(|m| m.get(key)).cloned();
    let list = |value: &Value, key: &str| {
        let found = at(value, key);
        found.and_then(|v| v.as_array().map(<[Value]>::to_vec))
    };
    let groups = list(&rules, "groups").unwrap();
    let rules = groups.iter().flat_map(|g| list(g, "rules").unwrap());
    let mut out = BTreeSet::new();
    for rule in rules {
        let text = |value: &Value, key: &str| {
            let found = at(value, key).and_then(|v| v.as_str().map(str::to_owned));
            found.unwrap_or_else(|| panic!("{key} is missing in {rule:?}"))
        };
        text(&rule, "alert");
        text(&at(&rule, "labels").unwrap(), "severity");
        text(&at(&rule, "annotations").unwrap(), "summary");
        out.extend(names(&text(&rule, "expr")));
    }
    out
}

/// Has Prometheus' own tool look at a text; what it complains of.
fn promtool(what: &str, text: &str) -> Result<(), String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut tool = Command::new("promtool");
    let tool = match what {
        "metrics" => tool
            .args(["check", "metrics"])
            .stdin(file.reopen().unwrap()),
        _ => tool.args(["check", what]).arg(file.path()),
    };
    let said = match tool.output() {
        Ok(said) => said,
        Err(e) => {
            eprintln!("skipped: promtool: {e}; `scripts/test` installs it");
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    said.status.success().then_some(()).ok_or(text.into_owned())
}

#[test]
fn prometheus_understands_alerts_and_queries() {
    promtool("rules", &shipped("prometheus/alerts.yml")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&shipped("grafana/halite.json")).unwrap();
    let mut all = Vec::new();
    queries(&json["panels"], &mut all);
    assert!(all.len() > 40);
    // Rules that record something are the queries that the tool looks at.
    let rules: Vec<serde_json::Value> = all
        .iter()
        .map(|query| query.replace("$__rate_interval", "5m"))
        .map(|query| query.replace("$__range", "1h"))
        .enumerate()
        .map(|(n, query)| serde_json::json!({"record": format!("query_{n}"), "expr": query}))
        .collect();
    let file = serde_json::json!({"groups": [{"name": "queries", "rules": rules}]});
    promtool("rules", &file.to_string()).unwrap();
    if Command::new("promtool").arg("--version").output().is_ok() {
        promtool("rules", &file.to_string().replace("rate(", "rate((")).unwrap_err();
    }
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let dashboard = of_dashboard();
    let alerts = of_alerts();
    assert!(dashboard.len() > 40 && alerts.len() > 10);
    let dir = tempfile::tempdir().unwrap();
    let reaction = dir.path().join("x.sls");
    std::fs::write(&reaction, "").unwrap();
    let psk = dir.path().join("psk");
    std::fs::write(&psk, "0123456789abcdef").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&psk, private).unwrap();
    // Without a key, it would ask the other masters of its cluster for one.
    let key = PrivateKey::generate(2048).unwrap();
    std::fs::write(dir.path().join("cluster.pem"), &*key.to_pem()).unwrap();
    let [port, closed] = free_ports();
    // Without servers, its cluster gives no master the gateways, so it is another one.
    let of_cluster = Master::start(&format!(
        "worker_threads: 1\ncluster_pki_dir: {}\ncluster_id: c\ncluster_secret: 0123456789abcdef0123456789abcdef\n\
         cluster: {{servers: ['127.0.0.1:{closed}']}}\nmetrics_address: ''",
        dir.path().display(),
    ));
    let master = Master::start(&format!(
        "worker_threads: 1\nmetrics_address: ''\nevent_return: [rawfile_json]\nreactor: [{{'x/*': [{}]}}]\n\
         rawfile_json.filename: {}\n\
         gateways:\n  sysinspect: {{interface: 127.0.0.1, port: {port}}}\n  arena: {{servers: ['127.0.0.1:{closed}']}}\n  \
         collective: {{servers: ['127.0.0.1:{closed}'], security: psk, psk_file: {}}}\n",
        reaction.display(),
        dir.path().join("events").display(),
        psk.display(),
    ));
    let read = |master: &Master| {
        let socket = master.config().sock_dir.join("master_status.ipc");
        let mut text = String::new();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let (mut missing, mut lint) = (BTreeSet::new(), Ok(()));
    eventually("all metrics of the dashboard and the alerts", || {
        let (text, more) = (read(&master), read(&of_cluster));
        let lines = || text.lines().chain(more.lines());
        let samples = lines().filter(|line| !line.starts_with('#'));
        let families = lines().filter_map(|line| line.strip_prefix("# TYPE "));
        // Some families have samples only when something has gone wrong.
        let known: BTreeSet<String> = samples
            .chain(families)
            .filter_map(|l| names(l).next())
            .collect();
        let unknown = dashboard
            .union(&alerts)
            .filter(|name| !known.contains(*name));
        let unknown: BTreeSet<String> = unknown.cloned().collect();
        if unknown != missing {
            eprintln!("not there yet: {unknown:?}");
            missing = unknown;
        }
        lint = promtool("metrics", &text).and(promtool("metrics", &more));
        missing.is_empty()
    });
    lint.unwrap();
}
