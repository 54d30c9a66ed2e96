//! Several masters of one cluster under the load of many simulated minions that go to another master when theirs is gone, and send
//! again what was not acknowledged. Tables are printed; nothing is judged by a clock.
//!
//! `HALITE_CLUSTER_MINIONS=5000` (20000) and `HALITE_BIN_DIR` with programs of a release build give the figures of docs/cluster.md.

mod fleet;
mod swarm;

use fleet::{Blow, Fleet};
use halite::sys::procs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use swarm::Swarm;
use testing::network::runs_apart;
use testing::three::{LOG, ThreeByThree};
use testing::{Master, NatsServer, halite_program, short_dir};

/// Minions in the usual run.
const MINIONS: usize = 150;
/// Minions of one program: each needs two open files.
const EACH: usize = 9000;
/// Roles that are killed in the usual run.
const USUAL: [&str; 3] = ["Cluster", "MWorkerQueue", "_publish_daemon"];
/// What masters are told.
const ACCEPT: &str = "auto_accept: true";
/// The same, of three that fill NATS again if it loses its data.
const LINES: &str = "auto_accept: true\ncluster_peers: [master0, master1, master2]";

fn minions() -> usize {
    let named = std::env::var("HALITE_CLUSTER_MINIONS").ok();
    named.map_or(MINIONS, |text| text.parse().expect("a number of minions"))
}

/// Every process of every master, every master, every server, and all servers are killed in turn while jobs are under way.
#[test]
fn whatever_is_killed_no_acknowledged_return_is_lost() {
    let minions = minions();
    let Some(mut fleet) = Fleet::start(minions) else {
        return;
    };
    let mut blows = Vec::new();
    let is_usual = minions <= MINIONS;
    // Two masters cannot serve more than that.
    let masters = if minions > MINIONS && minions <= EACH {
        3
    } else {
        1
    };
    for n in 0..masters {
        let mut roles = fleet.roles(n);
        roles.retain(|role| !is_usual || USUAL.iter().any(|usual| role.ends_with(usual)));
        blows.extend(roles.into_iter().map(|name| Blow::Role(n, name)));
        blows.push(Blow::Master(n));
        if masters > 1 {
            blows.push(Blow::Server(n));
        }
    }
    for blow in &blows {
        fleet.under(blow);
    }
    let leader = fleet.three.leader_of(LOG);
    fleet.under(&Blow::Server(leader));
    fleet.under(&Blow::Servers);
    fleet.settle();
}

/// Programs of masters are replaced one after the other while jobs are under way: by those of another version
/// (`HALITE_BEFORE`, a path of a halite-master), and back.
#[test]
fn masters_of_two_versions_are_one_cluster() {
    let before = std::env::var_os("HALITE_BEFORE").map(PathBuf::from);
    let now = halite_program("halite-master");
    let Some(mut fleet) = Fleet::start(minions()) else {
        return;
    };
    let mut programs = Vec::new();
    match before {
        // All of the other version first: then each is replaced as in an upgrade.
        Some(before) => programs.extend([before, now].map(|program| (3, program))),
        None => programs.push((1, now)),
    }
    for (masters, program) in programs {
        for n in 0..masters {
            fleet.under(&Blow::Program(n, program.clone()));
        }
    }
    fleet.settle();
}

/// Hosts with a master, a server and minions are cut off, and all servers lose their data, while jobs are under way.
#[test]
fn neither_partitions_nor_lost_data_lose_a_return() {
    if runs_apart("cluster_scale::neither_partitions_nor_lost_data_lose_a_return") {
        return;
    }
    let minions = minions();
    let Some(mut fleet) = Fleet::start_on_hosts(minions / 3) else {
        return;
    };
    let islands = if minions > MINIONS { 3 } else { 1 };
    for island in 0..islands {
        fleet.cut(island);
    }
    fleet.lose_data();
    fleet.settle();
}

/// CPU time of masters and servers for a return, and their memory: without a cluster, and for one to three masters.
#[test]
fn the_price_of_a_return() {
    let minions = minions().min(EACH);
    let count = (minions * 20).to_string();
    let is_usual = minions <= MINIONS;
    for masters in (0..=3).filter(|masters| !is_usual || [0, 3].contains(masters)) {
        let dir = short_dir();
        let mut three = None;
        let mut alone = Vec::new();
        if masters == 0 {
            alone.push(Master::halite(ACCEPT));
        } else {
            three = ThreeByThree::start_masters(masters, ACCEPT);
            if three.is_none() {
                return;
            }
        }
        let all = three.as_ref().map_or(&alone, |three| &three.masters);
        let servers = three
            .iter()
            .flat_map(|three| three.servers.iter().map(NatsServer::id));
        let servers: Vec<u32> = servers.collect();
        let mains: Vec<u32> = all
            .iter()
            .map(|master| master.id().unsigned_abs())
            .collect();
        let keys = dir.path().join("keys");
        let start = |words: &str| {
            let line = format!("{words} --minions {minions} --keys {}", keys.display());
            let words: Vec<&str> = line.split(' ').collect();
            Swarm::start(dir.path(), all, "sw", &words).run()
        };
        start("--mode signin");
        let before = [spent(&mains), spent(&servers)];
        let said = start(&format!("--mode returns --count {count} --concurrency 256"));
        let returns: f64 = count.parse().expect("a number");
        let memory = |pids: &[u32]| pids.iter().map(|pid| memory(*pid)).collect::<Vec<_>>();
        eprintln!(
            "{masters} masters in a cluster, {minions} minions; memory of the masters {:?} MiB, of the servers {:?} MiB; \
             CPU ms for a return (with its share of a sign-in):",
            memory(&mains),
            memory(&servers),
        );
        let (mut all, [masters_before, servers_before]) = (0.0, before);
        for (now, before) in [
            (spent(&mains), masters_before),
            (spent(&servers), servers_before),
        ] {
            for (role, cpu) in now {
                let cpu = (cpu - before.get(&role).copied().unwrap_or(0.0)) / returns;
                all += cpu;
                if cpu >= 0.0005 {
                    eprintln!("  {role:<40} {cpu:.4}");
                }
            }
        }
        eprintln!("  {:<40} {all:.4}\n{said}", "all");
    }
}

/// CPU time in ms of these processes and their children, by role.
fn spent(pids: &[u32]) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    for pid in pids {
        for one in procs::family(*pid).expect("processes can be listed") {
            let role = one
                .title
                .rsplit_once(" info ")
                .map_or("server", |(_, role)| role);
            let role = role.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
            *out.entry(role.to_owned()).or_default() += one.cpu.as_secs_f64() * 1e3;
        }
    }
    out
}

/// Proportional set size of a process and its children, in MiB.
fn memory(pid: u32) -> u64 {
    let family = procs::family(pid).expect("processes can be listed");
    let of = |one: &procs::Process| {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", one.pid)).ok()?;
        let line = text.lines().find(|line| line.starts_with("Pss:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    family.iter().filter_map(of).sum::<u64>() / 1024
}
