//! What a minion does by itself, beside a stock 3008 minion on this host: the pillar without a master, and the
//! events of beacons.

/// Beside stock Salt.
mod stock {
    use halite::wire::{Map, Value, msgpack};
    use halite_ipc::Subscriber;
    use serde_json::Value as Json;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};
    use testing::{Master, Minion, Stock, cli, gpg::KeyRing};

    const TREE: &[(&str, &str)] = &[
        (
            "top.sls",
            "base:\n  'role:web':\n    - match: grain\n    - web\n    - secret\n  'm*':\n    - more\n  'other':\n    - none\n",
        ),
        (
            "web.sls",
            "include: [inc]\nopts: {{ opts.own }} {{ opts.id }}\nhere: {{ pillar.get('given', 1) }}\n\
             echo: {{ salt['test.echo']('x') }} {{ salt.test.echo(1) }}\nrole: {{ salt['grains.get']('role') }}\n\
             split: {{ salt['cmd.run']('echo a b') }}\n",
        ),
        ("inc.sls", "inc: {a: 1}\n"),
        ("more.sls", "inc: {b: 2}\n"),
    ];

    /// What a tool prints for a function, as JSON.
    fn call(program: &Path, dir: &Path, args: &[&str]) -> Json {
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(dir)
            .args(["--out=json", "-l", "quiet"])
            .args(args);
        let ran = cli::run(command, args.join(" "), Duration::from_secs(60));
        ran.json()
            .unwrap_or_else(|e| panic!("{e}\n{}", ran.describe()))
    }

    #[test]
    fn pillars_without_a_master() {
        let Some(stock) = Stock::find("3008") else {
            return;
        };
        let dir = testing::short_dir();
        let at = |name: &str| dir.path().join(name);
        for name in ["pillar", "dev", "states", "salt"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for (name, text) in TREE {
            std::fs::write(at("pillar").join(name), text).unwrap();
        }
        std::fs::write(at("dev").join("top.sls"), "dev:\n  '*': [d]\n").unwrap();
        std::fs::write(at("dev").join("d.sls"), "dev: yes\n").unwrap();
        std::fs::write(at("states").join("a.txt"), "text").unwrap();
        let place = dir.path().display();
        let config = format!(
            "root_dir: {place}/root\nid: m1\nown: mine\ngrains: {{role: web}}\n\
             pillar_roots: {{base: [{place}/pillar], dev: [{place}/dev]}}\nfile_roots: {{base: [{place}/states]}}\n\
             ext_pillar:\n- cmd_json: 'echo {{\\\"ext\\\": true}}'\nenable_fqdns_grains: false\nenable_gpu_grains: false\n"
        );
        std::fs::write(at("salt").join("minion"), config).unwrap();
        let ring = KeyRing::new(at("salt").join("gpgkeys"));
        let block = ring.encrypt(b"hidden").trim_end().replace('\n', "\n  ");
        let secret = format!("#!yaml|gpg\nsecret: |\n  {block}\n");
        std::fs::write(at("pillar").join("secret.sls"), secret).unwrap();
        let given = format!("pillar={{word: '{}'}}", ring.encrypt_folded(b"told"));
        let programs = [
            stock.program("salt-call"),
            testing::halite_program("halite-call"),
        ];
        for args in [
            &["--local", "pillar.items", "unmask=True"][..],
            &["--local", "pillar.items"],
            &[
                "--local",
                "pillar.items",
                "pillar={given: 5, own: 6}",
                "unmask=True",
            ],
            &[
                "--local",
                "pillar.items",
                &given,
                "pillar_enc=gpg",
                "unmask=True",
            ],
            &["--local", "pillar.get", "inc:a", "unmask=True"],
            &[
                "--local",
                "pillar.get",
                "dev",
                "pillarenv=dev",
                "unmask=True",
            ],
            &["--local", "pillar.item", "inc", "role", "unmask=True"],
            &["--local", "pillar.raw", "inc"],
            &[
                "--local",
                "pillar.ext",
                "{cmd_yaml: 'echo asked: 1'}",
                "unmask=True",
            ],
            &["--local", "pillar.file_exists", "inc.sls"],
            &["--local", "cp.list_master"],
            &["--local", "cp.get_file_str", "salt://a.txt"],
            &["--local", "cp.hash_file", "salt://nosuch"],
        ] {
            let [expected, found] = programs.each_ref().map(|p| call(p, &at("salt"), args));
            assert_eq!(found, expected, "{args:?}");
        }
    }

    const BEACONS: &str = "beacons:
  ps: [{processes: {no-such-process: stopped, other: running, more: null}}]
  procs: [{beacon_module: ps}, {processes: {no-such-process: stopped}}, {interval: 2}]
  memusage: [{percent: 0%}]
  never: [{beacon_module: memusage}, {percent: 101}]
  diskusage: [{/: 0%}, {interval: 1}]
  load: [{averages: {1m: [-2, -1], 5m: [-2, -1], 15m: [-2, -1]}}]
  network_info: [{interfaces: {lo: {type: greater, bytes_sent: -1}}}]
  status: [{loadavg: [1-min, nosuch]}, {uptime: [all]}]
  off: [{beacon_module: memusage}, {percent: 0%}, {enabled: false}]
  wrong: [{beacon_module: ps}]
  log: [{file: /no/such/file}]
";

    /// The events of beacons that come during some seconds, the first of each tag.
    fn events(bus: &mut Subscriber, id: &str, wanted: usize) -> BTreeMap<String, Map> {
        let prefix = format!("salt/beacon/{id}/");
        let end = Instant::now() + Duration::from_secs(60);
        let mut seen = BTreeMap::new();
        while seen.len() < wanted && Instant::now() < end {
            let Ok(Some(event)) = bus.next(Some(Duration::from_secs(1))) else {
                continue;
            };
            let Some(name) = event.tag.strip_prefix(&prefix) else {
                continue;
            };
            // The status beacon has the time in its tag.
            let name = name.split('/').next().unwrap_or_default().to_owned();
            let data = msgpack::decode(&event.payload).unwrap().into_map().unwrap();
            seen.entry(name).or_insert(data);
        }
        seen
    }

    /// Numbers of the moment do not count, only that they are numbers.
    fn plain(value: &Value) -> Value {
        match value {
            Value::Map(map) => {
                const MOMENT: [&str; 4] = ["_stamp", "id", "since_iso", "time"];
                let counts = |key: &Value| !MOMENT.iter().any(|moment| key.is_str(moment));
                let pairs = map.iter().filter(|(key, _)| counts(key));
                Value::Map(
                    pairs
                        .map(|(key, value)| (key.clone(), plain(value)))
                        .collect(),
                )
            }
            Value::Int(_) | Value::Float(_) | Value::UInt(_) => 0.into(),
            Value::Array(list) => Value::Array(list.iter().map(plain).collect()),
            other => other.clone(),
        }
    }

    #[test]
    fn beacons_tell_the_same() {
        let Some(stock) = Stock::find("3008") else {
            return;
        };
        let master = Master::halite("salt_series: '3008'\nauto_accept: true");
        let mut bus = Subscriber::connect(master.bus())
            .unwrap()
            .with_prefix("salt/beacon/");
        let mut told = Vec::new();
        for id in ["stock", "halite"] {
            let _minion = match id {
                "stock" => Minion::stock(&stock, &master, id, BEACONS),
                _ => Minion::halite(&master, id, BEACONS),
            };
            let events = events(&mut bus, id, 8);
            let shown = events
                .into_iter()
                .map(|(name, data)| (name, plain(&data.into())));
            told.push(shown.collect::<BTreeMap<String, Value>>());
        }
        let shape = |all: &BTreeMap<String, Value>| -> Vec<String> {
            let text = |(name, data): (&String, &Value)| {
                format!("{name} {}", halite::wire::pytext::repr(data))
            };
            let mut lines: Vec<String> = all.iter().map(text).collect();
            lines.sort();
            lines
        };
        assert_eq!(shape(&told[1]), shape(&told[0]));
        assert!(told[0].len() >= 7, "{:?}", told[0].keys());
    }
}
