//! The metrics and their names.

use super::fleet::Figures;
use super::record::{all, as_number, each, number};
use super::text::{MetricKind::*, Text};
use halite_config::MasterConfig;
use halite_master::commands::Class;
use halite_master::latency::{BOUNDS, Buckets, Latencies};
use halite_master::score::{self, Late};
use halite_sys::net;
use halite_sys::procs;
use halite_sys::time::unix_now;
use halite_wire::{Map, Value};

/// All metrics as text, from the records of the roles and the fleet's figures.
pub fn render(records: &[Map], fleet: &Figures, config: &MasterConfig) -> String {
    let mut text = Text::default();
    let version = env!("CARGO_PKG_VERSION");
    text.family(
        "halite_build_info",
        Gauge,
        "The version of this master, in a label.",
    )
    .sample(&[("version", version)], 1.0);
    if let Some(main) = of(records, "main") {
        supervisor(&mut text, main);
        let late = score::late(records, unix_now(), config.request_timeout);
        up(&mut text, main, &late);
    }
    processes(&mut text, records);
    if let Some(request) = of(records, "request") {
        requests(&mut text, request);
    }
    workers(&mut text, records);
    if let Some(publish) = of(records, "publish") {
        publisher(&mut text, publish);
    }
    if let Some(event) = of(records, "event") {
        bus(&mut text, event);
    }
    if let Some(maintenance) = of(records, "maintenance") {
        rotation(&mut text, maintenance);
    }
    if let Some(reactor) = of(records, "reactor") {
        self::reactor(&mut text, reactor);
    }
    if let Some(returner) = of(records, "returner") {
        self::returner(&mut text, returner);
    }
    if let Some(gateway) = of(records, "gateway-sysinspect") {
        self::gateway(&mut text, gateway);
    }
    if let Some(cluster) = of(records, "cluster") {
        super::cluster::render(&mut text, cluster);
    }
    if let Some(gateway) = of(records, "gateway-arena") {
        super::arena::render(&mut text, gateway);
    }
    if let Some(gateway) = of(records, "gateway-collective") {
        super::collective::render(&mut text, gateway);
    }
    connections(&mut text, config);
    self::fleet(&mut text, fleet);
    text.finish()
}

fn of<'a>(records: &'a [Map], role: &str) -> Option<&'a Map> {
    records.iter().find(|r| r.str("role") == Some(role))
}

fn supervisor(text: &mut Text, main: &Map) {
    let since = number(main, "since");
    text.one(
        "halite_start_time_seconds",
        Gauge,
        "When the master started, Unix time.",
        since,
    );
    text.family(
        "halite_role_restarts_total",
        Counter,
        "Restarts of role processes.",
    );
    let restarts = main.get("restarts").and_then(Value::as_map);
    for (role, count) in restarts.into_iter().flat_map(Map::iter) {
        text.sample(
            &[("role", role.as_str().unwrap_or_default())],
            as_number(Some(count)),
        );
    }
}

/// Which roles serve, as in `/healthz`.
fn up(text: &mut Text, main: &Map, late: &[Late]) {
    let help = "Whether a role process serves and has reported recently.";
    text.family("halite_role_up", Gauge, help);
    let down = main.get("down").map(Value::str_list).unwrap_or_default();
    let roles = main.get("restarts").and_then(Value::as_map);
    for (role, _) in roles.into_iter().flat_map(Map::iter) {
        let role = role.as_str().unwrap_or_default();
        let silent = late.iter().any(|late| late.role == role);
        let up = !silent && !down.iter().any(|name| name == role);
        text.sample(&[("role", role)], f64::from(u8::from(up)));
    }
}

/// Resources used by the role processes.
fn processes(text: &mut Text, records: &[Map]) {
    let process = |r: &Map| {
        let pid = r.int("pid").and_then(|pid| pid.try_into().ok())?;
        Some((r.str("role")?.to_owned(), procs::one(pid)?))
    };
    let all: Vec<_> = records.iter().filter_map(process).collect();
    let help = "Resident memory of a role process; shared pages count for each.";
    text.family("halite_role_resident_bytes", Gauge, help);
    for (role, process) in &all {
        text.sample(&[("role", role)], process.resident as f64);
    }
    let help = "Processor time used by a role process and its exited children.";
    text.family("halite_role_cpu_seconds_total", Counter, help);
    for (role, process) in &all {
        text.sample(&[("role", role)], process.cpu.as_secs_f64());
    }
}

fn requests(text: &mut Text, r: &Map) {
    let classes = |text: &mut Text, list: &str| {
        let list = r.get(list).and_then(Value::as_array).unwrap_or_default();
        for class in Class::ALL {
            text.sample(
                &[("class", class.name())],
                as_number(list.get(class as usize)),
            );
        }
    };
    text.family("halite_requests_total", Counter, "Requests received.");
    classes(text, "taken");
    let help =
        "Time from arrival of a request to its answer; without those that missed their deadline.";
    text.family("halite_request_seconds", Histogram, help);
    for class in Class::ALL {
        let Buckets { counts, sum } = Latencies::of(r, "latency", class);
        text.histogram(("class", class.name()), &BOUNDS, &counts, sum);
    }
    text.family(
        "halite_request_queue_depth",
        Gauge,
        "Requests waiting for a worker.",
    );
    classes(text, "depth");
    #[rustfmt::skip]
    let single = [
        ("halite_request_oldest_seconds", Gauge, "Age of the oldest waiting request.", "oldest"),
        ("halite_requests_refused_total", Counter, "Requests turned away because their queue was full.", "refused"),
        ("halite_sign_ins_limited_total", Counter, "Sign-ins not answered because their address exceeds the rate limit.", "limited"),
        ("halite_sign_ins_outwaited_total", Counter, "Sign-ins dropped because their minion no longer waited.", "outwaited"),
        ("halite_requests_replayed_total", Counter, "Requests refused as replays.", "replays"),
        ("halite_requests_learned_total", Counter, "Requests answered by other masters of the cluster, refused here.", "learned"),
        ("halite_requests_late_total", Counter, "Requests that missed their deadline.", "expired"),
        ("halite_requests_retried_total", Counter, "Requests given to a second worker because the first exited.", "retried"),
        ("halite_replies_undelivered_total", Counter, "Replies not delivered because the peer was gone or did not read.", "undelivered"),
        ("halite_returns_held", Gauge, "Returns whose answers wait until the cluster has them.", "held"),
        ("halite_returns_unconfirmed_total", Counter, "Returns that the cluster did not have in time.", "unconfirmed"),
        ("halite_requests_malformed_total", Counter, "Messages that were not valid requests.", "ignored"),
    ];
    for (name, kind, help, field) in single {
        text.one(name, kind, help, number(r, field));
    }
    let (all, idle) = (number(r, "workers"), number(r, "idle"));
    text.family("halite_workers", Gauge, "Workers by activity.")
        .sample(&[("state", "busy")], (all - idle).max(0.0))
        .sample(&[("state", "idle")], idle);
}

fn workers(text: &mut Text, records: &[Map]) {
    let named = |r| Some((Map::str(r, "role")?, r));
    let mut workers: Vec<(&str, &Map)> = records.iter().filter_map(named).collect();
    workers.retain(|(name, _)| name.starts_with("MWorker-"));
    #[rustfmt::skip]
    let fields = [
        ("halite_worker_requests_total", "Requests that a worker has answered.", "requests"),
        ("halite_worker_busy_seconds_total", "Seconds that a worker has spent handling requests.", "busy"),
        ("halite_worker_sign_ins_total", "Sign-ins that a worker has answered.", "sign_ins"),
        ("halite_worker_published_total", "Requests to publish a job.", "published"),
        ("halite_worker_returns_total", "Returns of minions.", "returns"),
        ("halite_worker_minion_events_total", "Requests of minions with events.", "events"),
        ("halite_worker_pillars_total", "Pillar requests.", "pillars"),
        ("halite_worker_unpublished_total", "Jobs that were too large, or that the publisher did not accept; their senders got an error.", "unpublished"),
        ("halite_worker_events_lost_total", "Events that a worker could not fire on the bus.", "unfired"),
        ("halite_worker_unknown_commands_total", "Requests with an unknown command.", "unknown"),
    ];
    each(text, Counter, "worker", &workers, &fields);
}

fn publisher(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_publications_total", Counter, "Publications sent to the minions.", "publications"),
        ("halite_publications_dropped_total", Counter, "Publications that could not be encrypted.", "dropped"),
        ("halite_subscribers", Gauge, "Connections to the publish port.", "subscribers"),
        ("halite_publication_copies_total", Counter, "Publications passed to the kernel, once for each subscriber.", "copies"),
        ("halite_publication_copies_waiting", Gauge, "Publications waiting for slow subscribers, once for each.", "waiting"),
        ("halite_subscribers_ended_total", Counter, "Subscribers disconnected because they did not read or answer.", "ended"),
        ("halite_subscribers_refused_total", Counter, "Connections to the publish port that were not from subscribers.", "refused"),
        ("halite_publish_accept_failures_total", Counter, "Failures to accept on the publish port for lack of descriptors or memory.", "starved"),
    ];
    all(text, r, &fields);
    let help = "Publications that a subscriber did not get, once for each: slow, its queue was full; gone, its connection was closed first.";
    text.family("halite_publication_copies_lost_total", Counter, help)
        .sample(&[("reason", "slow")], number(r, "slow"))
        .sample(&[("reason", "gone")], number(r, "gone"));
    let help = "Publications dropped for a connected subscriber because its queue was full, by its address.";
    text.family("halite_subscriber_lost_total", Counter, help);
    let lossy = r.get("lossy").and_then(Value::as_map);
    for (peer, count) in lossy.into_iter().flat_map(Map::iter) {
        let peer = peer.as_str().unwrap_or_default();
        text.sample(&[("peer", peer)], as_number(Some(count)));
    }
}

fn bus(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_events_total", Counter, "Events fired on the bus.", "events"),
        ("halite_event_frames_total", Counter, "Events passed to listeners.", "frames"),
        ("halite_events_dropped_total", Counter, "Events lost by slow listeners.", "dropped"),
        ("halite_events_refused_total", Counter, "Events that were invalid or too large.", "bad"),
        ("halite_events_repeated_total", Counter, "Events of returns not delivered again, in a cluster.", "repeated"),
        ("halite_event_connections_refused_total", Counter, "Connections to the bus turned away at the limit.", "refused"),
        ("halite_event_listeners", Gauge, "Listeners connected to the bus.", "listeners"),
        ("halite_event_senders", Gauge, "Senders connected to the bus.", "senders"),
    ];
    all(text, r, &fields);
    let help = "Events lost by a connected listener, by its process id.";
    text.family("halite_event_listener_dropped_total", Counter, help);
    let lossy = r.get("lossy").and_then(Value::as_map);
    for (pid, count) in lossy.into_iter().flat_map(Map::iter) {
        let pid = pid.as_int().unwrap_or_default().to_string();
        text.sample(&[("pid", &pid)], as_number(Some(count)));
    }
}

fn rotation(text: &mut Text, r: &Map) {
    let help = "Rotations of the AES key of publications.";
    text.one(
        "halite_key_rotations_total",
        Counter,
        help,
        number(r, "rotations"),
    );
    let help = "Time of the last rotation, Unix time; 0 if there was none since the start.";
    text.one(
        "halite_key_rotation_time_seconds",
        Gauge,
        help,
        number(r, "rotated"),
    );
}

fn reactor(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_reactions_total", Counter, "Accepted reactions.", "reactions"),
        ("halite_reactions_waiting", Gauge, "Reactions waiting for a worker of the reactor.", "waiting"),
        ("halite_reactions_dropped_total", Counter, "Reactions dropped because the queue was full.", "dropped"),
    ];
    all(text, r, &fields);
}

fn returner(text: &mut Text, r: &Map) {
    let help = "Jobs with new data waiting for a database.";
    text.one(
        "halite_returner_jobs_waiting",
        Gauge,
        help,
        number(r, "jobs"),
    );
    let help = "Events waiting for a database or file.";
    text.one(
        "halite_returner_events_waiting",
        Gauge,
        help,
        number(r, "events"),
    );
    let help = "Events dropped because a database or file was too slow.";
    text.one(
        "halite_returner_events_dropped_total",
        Counter,
        help,
        number(r, "dropped"),
    );
}

fn gateway(text: &mut Text, r: &Map) {
    #[rustfmt::skip]
    let fields = [
        ("halite_sysinspect_connections", Gauge, "Connections to the gateway for sysinspect minions.", "connections"),
        ("halite_sysinspect_sessions", Gauge, "Connected sysinspect minions.", "sessions"),
        ("halite_sysinspect_jobs", Gauge, "Jobs running on sysinspect minions.", "jobs"),
        ("halite_sysinspect_registrations_total", Counter, "Registrations examined.", "registrations"),
        ("halite_sysinspect_duplicates_total", Counter, "Hellos of minions that were already connected.", "duplicates"),
        ("halite_sysinspect_expired_total", Counter, "Sessions closed because of silence.", "expired"),
        ("halite_sysinspect_refused_total", Counter, "Connections and registrations refused at a limit.", "refused"),
        ("halite_sysinspect_malformed_total", Counter, "Frames that could not be read.", "garbage"),
        ("halite_sysinspect_proofs_failed_total", Counter, "Ids under the master's key that were wrong.", "failures"),
        ("halite_sysinspect_dropped_total", Counter, "Messages dropped because a minion's queue was full.", "dropped"),
    ];
    all(text, r, &fields);
}

fn connections(text: &mut Text, config: &MasterConfig) {
    let count = |ports: Vec<u16>| net::established(&ports) as f64;
    text.family(
        "halite_connections",
        Gauge,
        "Established connections of minions and tools to a port.",
    )
    .sample(&[("port", "publish")], count(config.publish_ports()))
    .sample(&[("port", "return")], count(config.ret_ports()));
}

fn fleet(text: &mut Text, fleet: &Figures) {
    text.family("halite_keys", Gauge, "Keys of minions by state.");
    for (state, count) in &fleet.keys {
        text.sample(&[("state", state)], *count as f64);
    }
    let help = "Minions with an accepted key, by whether their address has a connection to the publish port (in a cluster, of any master), or their gateway lists them; minions without cached grains count as silent.";
    text.family("halite_minions", Gauge, help)
        .sample(&[("state", "connected")], fleet.connected as f64)
        .sample(&[("state", "silent")], fleet.silent as f64);
    let help = "Minions with an accepted key by the version in their cached grains; empty where none is known.";
    text.family("halite_minion_versions", Gauge, help);
    for (version, count) in &fleet.versions {
        text.sample(&[("version", version)], *count as f64);
    }
    let help = "Jobs started in the last ten minutes with missing returns.";
    text.one(
        "halite_jobs_waiting",
        Gauge,
        help,
        fleet.waiting_jobs as f64,
    );
}
