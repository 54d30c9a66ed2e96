//! Speed of the parts that every request goes through: `cargo bench --bench library`.
//! Figures are for comparison on one machine; slow results are not failures.

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use halite::arena::runtime::engine::{End, Host, Limits, Running, Spec, interpreter};
use halite::arena::wire::{Channel, Mode, Stream, Uuid};
use halite::crypto::{Backend, Crypticle, Encryption, KeyString, RsaPrivate, Signing};
use halite::jinja::{Environment, EnvironmentOptions, Obj};
use halite::store::local::{Layout, LocalMinions};
use halite::store::minions::{MinionCache, MinionInventory};
use halite::target::{Inventory, Target};
use halite::wire::ids::MinionId;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

const FLEET: usize = 10_000;

/// A return like that of `test.ping`, and a large one.
fn loads() -> [(&'static str, Map); 2] {
    let load = |value: Value| {
        halite::map! {
            "cmd" => "_return", "id" => "web1.example.org", "success" => true, "return" => value, "retcode" => 0,
            "jid" => "20261121092637195592", "fun" => "test.ping", "fun_args" => Vec::<Value>::new(), "user" => "root",
        }
    };
    let state = |n: i64| {
        halite::map! {"__id__" => format!("state {n}"), "__run_num__" => n, "result" => true, "changes" => Map::new(), "duration" => 1.5}
    };
    let mut states = Map::new();
    (0..200).for_each(|n| states.set(format!("file_|-state {n}_|-/etc/{n}_|-managed"), state(n)));
    [
        ("ping", load(true.into())),
        ("200 states", load(Value::Map(states))),
    ]
}

fn codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("msgpack");
    for (name, load) in loads() {
        let bytes = msgpack::encode_map(&load, Profile::Wire);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("encode {name}"), |b| {
            b.iter(|| msgpack::encode_map(black_box(&load), Profile::Wire))
        });
        group.bench_function(format!("decode {name}"), |b| {
            b.iter(|| msgpack::decode(black_box(&bytes)))
        });
    }
}

fn crypticle(c: &mut Criterion) {
    let crypticle = Crypticle::new(&KeyString::generate());
    let mut group = c.benchmark_group("crypticle");
    for size in [256, 64 << 10, 1 << 20] {
        let plain = vec![7u8; size];
        let sealed = crypticle.encrypt(&plain);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("seal {size}"), |b| {
            b.iter(|| crypticle.encrypt(black_box(&plain)))
        });
        group.bench_function(format!("open {size}"), |b| {
            b.iter(|| crypticle.decrypt(black_box(&sealed)))
        });
        group.bench_function(format!("peek {size}"), |b| {
            b.iter(|| crypticle.peek(black_box(&sealed), 320))
        });
    }
}

fn rsa_of<B: Backend>(c: &mut Criterion, name: &str) {
    let key = RsaPrivate::<B>::generate(2048).expect("a key can be made");
    let public = key.public();
    let text = KeyString::generate();
    let sealed = public
        .encrypt(Encryption::OaepSha1, text.as_bytes())
        .expect("the text fits");
    let signed = key.sign(Signing::Pkcs1v15Sha1, b"message");
    let token = key.x931_sign(b"salt");
    let mut group = c.benchmark_group(format!("rsa 2048 {name}"));
    group.bench_function("sign", |b| {
        b.iter(|| key.sign(Signing::Pkcs1v15Sha1, black_box(b"message")))
    });
    group.bench_function("verify", |b| {
        b.iter(|| public.verify(Signing::Pkcs1v15Sha1, b"message", black_box(&signed)))
    });
    group.bench_function("encrypt", |b| {
        b.iter(|| public.encrypt(Encryption::OaepSha1, black_box(text.as_bytes())))
    });
    group.bench_function("decrypt", |b| {
        b.iter(|| key.decrypt(Encryption::OaepSha1, black_box(&sealed)))
    });
    group.bench_function("token", |b| {
        b.iter(|| public.x931_recover(black_box(&token)))
    });
}

fn rsa(c: &mut Criterion) {
    rsa_of::<halite::crypto::rsa_portable::Portable>(c, "portable");
    #[cfg(feature = "openssl")]
    rsa_of::<halite::crypto::rsa_openssl::OpenSsl>(c, "openssl");
}

/// A fleet with grains, as in the caches of the master.
struct Fleet {
    ids: Vec<MinionId>,
    grains: Vec<Arc<Map>>,
}

impl Fleet {
    fn new() -> Fleet {
        let ids: Vec<MinionId> = (0..FLEET)
            .map(|n| format!("web{n:05}.example.org").parse().expect("an id"))
            .collect();
        let os = ["Debian", "Ubuntu", "RedHat", "SUSE"];
        let grains = |n: usize| {
            Arc::new(halite::map! {
                "os" => os[n % 4], "osarch" => "amd64", "num_cpus" => n as i64 % 64,
                "ipv4" => vec![Value::from("127.0.0.1"), format!("10.0.{}.{}", n / 250, n % 250).into()],
                "roles" => vec![Value::from("web"), format!("shard{}", n % 10).into()],
            })
        };
        Fleet {
            grains: (0..FLEET).map(grains).collect(),
            ids,
        }
    }
}

impl Inventory for Fleet {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    fn contains(&self, id: &str) -> bool {
        self.ids
            .binary_search_by(|known| known.as_str().cmp(id))
            .is_ok()
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        let at = self.ids.binary_search(id).ok()?;
        self.grains.get(at).cloned()
    }

    fn pillar(&self, _: &MinionId) -> Option<Arc<Map>> {
        None
    }
}

fn targets(c: &mut Criterion) {
    let fleet = Fleet::new();
    let list: Vec<String> = (0..FLEET)
        .step_by(2)
        .map(|n| format!("web{n:05}.example.org"))
        .collect();
    let list = list.join(",");
    let cases = [
        ("glob", "*"),
        ("glob", "web*7.example.org"),
        ("pcre", "web[0-4]\\d+\\.example"),
        ("list", &list),
        ("grain", "os:Debian"),
        ("grain_pcre", "os:(Deb|Ubu).*"),
        ("ipcidr", "10.0.0.0/22"),
        (
            "compound",
            "G@os:Debian and web0* and not ( E@web000.* or S@10.0.1.0/24 )",
        ),
    ];
    let mut group = c.benchmark_group("target, 10000 minions");
    group.sample_size(20);
    for (kind, text) in cases {
        let short: String = text.chars().take(40).collect();
        group.bench_function(format!("{kind} {short}"), |b| {
            b.iter_batched(
                || Target::parse(&text.into(), kind, None).expect("a target"),
                |target| target.expected(&fleet, &Map::new()).minions.len(),
                BatchSize::SmallInput,
            )
        });
    }
}

/// The same minions in files, with the index of the master's cache.
fn index(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = LocalMinions::new(dir.path(), Layout::Split);
    let fleet = Fleet::new();
    for (id, grains) in fleet.ids.iter().zip(&fleet.grains) {
        cache
            .store(id, grains, &Map::new())
            .expect("it can be kept");
    }
    let known = MinionInventory {
        ids: Arc::new(fleet.ids),
        cache: &cache,
        caches_data: true,
    };
    let mut group = c.benchmark_group("index of 10000 minions, target");
    for (kind, text) in [
        ("grain", "os:Debian"),
        ("ipcidr", "10.0.0.0/22"),
        ("compound", "G@os:Debian and not G@roles:shard4"),
    ] {
        let target = Target::parse(&text.into(), kind, None).expect("a target");
        group.bench_function(format!("{kind} {text}"), |b| {
            b.iter(|| target.expected(&known, &Map::new()).minions.len())
        });
    }
}

/// A pillar of fifty items.
fn templates(c: &mut Criterion) {
    const SOURCE: &str = "{% macro item(n, o) %}\n  item{{ n }}:\n    port: {{ 8000 + n }}\n    \
        {% if o.on %}on: true{% else %}on: false{% endif %}\n    hosts:\n    \
        {%- for h in o.hosts %}\n      - {{ h }}.{{ domain }}{{ ',' if not loop.last }}\n    \
        {%- endfor %}\n{% endmacro %}items:\n\
        {% for i in items %}{{ item(loop.index, i) }}{% endfor %}";
    let item = |n: i64| {
        let hosts = vec![Value::from("web1"), Value::from("web2"), Value::from("db")];
        Value::Map(halite::map! {"name" => format!("n{n}"), "on" => n % 2 == 0, "hosts" => hosts})
    };
    let items = Value::Array((0..50).map(item).collect());
    let environment = Environment::new(EnvironmentOptions::default());
    let variables = || {
        vec![
            ("items".to_owned(), Obj::from(&items)),
            ("domain".to_owned(), Obj::from("example.org")),
        ]
    };
    c.bench_function("jinja 50 items", |b| {
        b.iter(|| environment.render(black_box(SOURCE), "top.sls", variables()))
    });
}

/// A host that passes on publications.
struct Publisher(Mutex<Sender<usize>>);

impl Host for Publisher {
    fn allows(&self, _: &str) -> bool {
        true
    }

    fn publish(&self, _: &Uuid, _: &str, payload: &[u8]) -> bool {
        let to = self.0.lock().expect("no thread panics while holding it");
        to.send(payload.len()).is_ok()
    }

    fn subscribe(&self, _: &Uuid, _: &str) {
        let to = self.0.lock().expect("no thread panics while holding it");
        to.send(0).expect("the benchmark listens");
    }

    fn unsubscribe(&self, _: &Uuid, _: &str) {}

    fn output(&self, _: &Uuid, _: Stream, _: &[u8]) {}

    fn ended(&self, _: &Uuid, _: End) {
        let to = self.0.lock().expect("no thread panics while holding it");
        // A module that echoes may exit when the receiver is gone.
        let _ = to.send(0);
    }
}

fn start(code: &[u8]) -> (Box<dyn Running>, Receiver<usize>) {
    let channel =
        |path: &str, mode| Channel::new(path, mode, path).expect("a path that is a topic");
    let spec = Spec {
        uuid: "bench".parse().expect("an id"),
        code: code.to_vec(),
        argv: Vec::new(),
        program: "bench.wasm".into(),
        env: Vec::new(),
        channels: vec![channel("in", Mode::Read), channel("out", Mode::Write)],
        stdin: false,
        limits: Limits {
            memory: 1 << 20,
            table_elements: 100,
            open_files: 8,
            waiting_messages: 100,
            message: 64 << 10,
            messages_per_second: 0,
            output_per_second: 0,
            code: 1 << 20,
        },
    };
    let (to, from) = mpsc::channel();
    let host = Arc::new(Publisher(Mutex::new(to)));
    let running = interpreter().start(spec, host).expect("a module");
    (running, from)
}

/// A module from its start to its exit, a loop of a million steps, and a message through a channel and back.
fn modules(c: &mut Criterion) {
    const EMPTY: &str = "(module (func (export \"_start\")))";
    const LOOP: &str = "(module (func (export \"_start\") (local $n i32) (loop $next
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $n) (i32.const 1000000))))))";
    let mut group = c.benchmark_group("WASM");
    for (name, text) in [("start and end", EMPTY), ("loop of 1000000", LOOP)] {
        let code = wat::parse_str(text).expect("a module");
        group.bench_function(name, |b| {
            b.iter(|| start(black_box(&code)).1.recv().expect("it ends"))
        });
    }
    let echo = include_str!("../tests/data/arena/wat/echo.wat");
    let (running, from) = start(&wat::parse_str(echo).expect("a module"));
    from.recv().expect("it subscribes");
    let message = Bytes::from_static(b"a message of some octets");
    group.bench_function("echo", |b| {
        b.iter(|| {
            running.deliver("in", black_box(&message));
            from.recv().expect("it answers")
        })
    });
}

criterion_group!(
    benches, codec, crypticle, rsa, targets, index, templates, modules
);
criterion_main!(benches);
