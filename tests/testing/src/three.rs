//! Three masters of one cluster with a minion each, and three NATS servers that keep what they share.

use super::cluster::{LINES, is_member, jobs, keys, state};
use super::nats_server::{Leaders, NatsServer, server_name};
use super::network::{self, Network};
use super::{Master, Minion, short_dir, wait_for, wait_until, wait_without};
use halite::store::keys::KeyState;
use halite::wire::ids::Jid;
use halite_ipc::Subscriber;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The stream in which masters tell each other about jobs.
pub const LOG: &str = "HALITE_test_LOG";

/// After this time, a server that the others do not count is left out.
const LEFT_OUT: Duration = Duration::from_secs(5);

/// The cluster; a master, its minion and a server have the same number.
pub struct ThreeByThree {
    // Fields are dropped in this order: the masters end before the servers.
    /// The minions `m0`, `m1` and `m2`.
    pub minions: Vec<Minion>,
    /// The masters.
    pub masters: Vec<Master>,
    /// The servers.
    pub servers: [NatsServer; 3],
    /// If each master is on a host of its own.
    pub network: Option<Network>,
    dir: tempfile::TempDir,
}

impl ThreeByThree {
    /// Starts it on this host, with further lines for the masters. `None`, with a message, if there is no `nats-server`.
    pub fn start(more: &str) -> Option<ThreeByThree> {
        let servers = NatsServer::cluster([Ipv4Addr::LOCALHOST; 3])?;
        Some(ThreeByThree::with(servers, None, more))
    }

    /// That many masters and three servers on this host, without minions.
    pub fn start_masters(masters: usize, more: &str) -> Option<ThreeByThree> {
        let servers = NatsServer::cluster([Ipv4Addr::LOCALHOST; 3])?;
        Some(ThreeByThree::masters(servers, None, masters, more))
    }

    /// Three masters without minions, each with a server on a host of their own.
    pub fn start_masters_on_hosts(more: &str) -> Option<ThreeByThree> {
        let servers = NatsServer::cluster([0, 1, 2].map(network::address))?;
        let network = Network::start(3)?;
        Some(ThreeByThree::masters(servers, Some(network), 3, more))
    }

    /// As [`ThreeByThree::start`], with each master, its minion and a server on a host of their own.
    pub fn start_on_hosts(more: &str) -> Option<ThreeByThree> {
        let servers = NatsServer::cluster([0, 1, 2].map(network::address))?;
        let network = Network::start(3)?;
        Some(ThreeByThree::with(servers, Some(network), more))
    }

    fn with(servers: [NatsServer; 3], network: Option<Network>, more: &str) -> ThreeByThree {
        let more = format!("log_granular_levels: {{halite.cluster: debug}}\n{more}");
        let mut three = ThreeByThree::masters(servers, network, 3, &more);
        for n in 0..3 {
            let minion = three.start_minion(n, &format!("m{n}"));
            three.minions.push(minion);
        }
        (0..3).for_each(|n| three.wait_answers(n, &["m0", "m1", "m2"]));
        three
    }

    fn masters(
        servers: [NatsServer; 3],
        network: Option<Network>,
        masters: usize,
        more: &str,
    ) -> ThreeByThree {
        let mut three = ThreeByThree {
            minions: Vec::new(),
            masters: Vec::new(),
            servers,
            network,
            dir: short_dir(),
        };
        for n in 0..3 {
            three.start_server(n);
        }
        three.wait_leaders();
        three.wait_all_take_part();
        for n in 0..masters {
            let master = three.start_master(n, more);
            three.masters.push(master);
            wait_until("it is a member", || is_member(&three.masters[n]));
        }
        three
    }

    /// A leader may have one follower yet: then nothing with three replicas can be made. Of three servers of NATS 2.10 that
    /// begin together, one is left out for good once in some hundred times (`cluster_size` 2), until it starts again.
    fn wait_all_take_part(&mut self) {
        let mut asked = Instant::now();
        wait_until("all servers take part", || {
            let members = |n: usize| on(&self.network, n, || self.servers[n].members());
            let Some((names, expected)) = (0..3).find_map(members) else {
                return false;
            };
            if expected == 2 && asked.elapsed() > LEFT_OUT {
                let left_out = (0..3).find(|n| !names.contains(&server_name(*n)));
                if let Some(n) = left_out.filter(|_| names.len() == 2) {
                    eprintln!(
                        "the servers have left out {}: it is started again",
                        server_name(n)
                    );
                    self.servers[n].kill();
                    self.start_server(n);
                    asked = Instant::now();
                }
            }
            names.len() == 3
        });
    }

    fn start_master(&self, n: usize, more: &str) -> Master {
        // Each prefers the server of its own host.
        let servers = [0, 1, 2].map(|m| self.servers[(n + m) % 3].address());
        let lines = format!(
            "id: master{n}\n{LINES}cluster: {{servers: ['{}'], replicas: 3}}\ngather_job_timeout: 1\n{more}",
            servers.join("', '")
        );
        on(&self.network, n, || Master::halite(&lines))
    }

    /// Starts another minion of a master, whose key is accepted.
    pub fn start_minion(&self, n: usize, id: &str) -> Minion {
        let minion = self.at(n, |master| {
            Minion::halite(master, id, "return_retry_timer: 1")
        });
        self.wait_state(&[n], id, Some(KeyState::Pending));
        let accepted = keys(&self.masters[n]).change(
            &id.parse().expect("an id"),
            KeyState::Pending,
            KeyState::Accepted,
        );
        assert!(accepted.expect("keys can be changed"), "{id} is accepted");
        self.wait_state(&[0, 1, 2], id, Some(KeyState::Accepted));
        minion
    }

    /// Runs something where the master with this number is.
    pub fn at<T: Send>(&self, n: usize, run: impl FnOnce(&Master) -> T + Send) -> T {
        on(&self.network, n, || run(&self.masters[n]))
    }

    /// Starts a server (again).
    pub fn start_server(&mut self, n: usize) {
        let server = &mut self.servers[n];
        on(&self.network, n, || server.restart());
    }

    /// Starts a server again, without what it had stored.
    pub fn lose_data(&mut self, n: usize) {
        let server = &mut self.servers[n];
        on(&self.network, n, || server.lose_data());
    }

    /// Starts a master again.
    pub fn start_again(&mut self, n: usize) {
        let master = &mut self.masters[n];
        on(&self.network, n, || master.start_again());
    }

    /// Who leads among the servers, as soon as each stream has a leader that runs.
    pub fn wait_leaders(&self) -> Leaders {
        let runs = |name: &&str| self.servers[number_of(name)].is_running();
        wait_for("the servers have leaders", || {
            (0..3).find_map(|n| {
                let server = &self.servers[n];
                let leaders = on(&self.network, n, || server.leaders())?;
                let all_run = leaders.names().iter().all(runs);
                all_run.then_some(leaders)
            })
        })
    }

    /// The number of the server that leads a stream.
    pub fn leader_of(&self, stream: &str) -> usize {
        let found = wait_for("the stream has a leader", || {
            self.wait_leaders().of_streams.get(stream).cloned()
        });
        number_of(&found)
    }

    /// The number of a server that leads nothing; streams get other leaders if need be.
    pub fn follower(&self) -> usize {
        wait_for("a server leads nothing", || {
            let leaders = self.wait_leaders();
            let free = (0..3).find(|n| !leaders.names().contains(server_name(*n).as_str()));
            if free.is_none() {
                let away = |(_, leader): &(&String, &String)| **leader != leaders.of_all;
                let (stream, _) = leaders.of_streams.iter().find(away)?;
                let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}");
                let server = &self.servers[0];
                on(&self.network, 0, || server.client().request(&subject, b""));
            }
            free
        })
    }

    /// Waits until the key of a minion is in this state at these masters.
    pub fn wait_state(&self, masters: &[usize], id: &str, wanted: Option<KeyState>) {
        for n in masters {
            wait_until(&format!("{id} is {wanted:?} at master {n}"), || {
                state(&self.masters[*n], id) == wanted
            });
        }
    }

    /// Waits until these minions answer a master.
    pub fn wait_answers(&self, n: usize, ids: &[&str]) {
        wait_until(&format!("master {n} reaches {ids:?}"), || {
            let words = ["-L", &ids.join(","), "test.ping", "-t", "2"];
            let said = self.at(n, |master| master.halite_cli().ask(&words));
            let said = said.unwrap_or_default();
            ids.iter().all(|id| said.get(*id) == Some(&true.into()))
        });
    }

    /// Publishes a job at a master, which is not waited for: words of the command line.
    ///
    /// # Errors
    /// What the command line tool said when there is no job.
    pub fn publish(&self, n: usize, words: &[&str]) -> Result<Jid, String> {
        let words = [words, &["--async"]].concat();
        let ran = self.at(n, |master| master.halite_cli().salt(&words));
        let describe = ran.describe();
        let out = ran.ok()?;
        let jid = out.split_whitespace().find_map(|word| word.parse().ok());
        jid.ok_or(describe)
    }

    /// Whether a master refuses a job for all, as it reaches no other master.
    pub fn is_refused(&self, n: usize) -> bool {
        let said = self.publish(n, &["*", "test.ping"]);
        said.is_err_and(|said| said.contains("has no connection to its cluster. `halite --here`"))
    }

    /// Publishes a job at a master that has each minion append `word` to a file, as soon as that is possible.
    pub fn work(&self, n: usize, word: &str) -> Jid {
        let line = self.line(word);
        wait_for(&format!("master {n} publishes {word}"), || {
            self.publish(n, &["*", "cmd.run", &line]).ok()
        })
    }

    /// The command that appends a word to the file that [`ThreeByThree::runs`] reads.
    pub fn line(&self, word: &str) -> String {
        format!("echo {word} >> {}", self.path("worked").display())
    }

    /// A file or directory for the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// How often minions have run the job with this word.
    pub fn runs(&self, word: &str) -> usize {
        let text = fs::read_to_string(self.path("worked")).unwrap_or_default();
        text.lines().filter(|line| *line == word).count()
    }

    /// The minions whose returns of a job a master has.
    pub fn returned(&self, n: usize, jid: &Jid) -> Vec<String> {
        let job = jobs(&self.masters[n]).get(jid).expect("jobs can be read");
        let returns = job.map(|job| job.returns).unwrap_or_default();
        let mut ids: Vec<String> = returns.into_iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Waits until these masters have a job with returns of exactly these minions.
    pub fn wait_returned(&self, masters: &[usize], jid: &Jid, ids: &[&str]) {
        for n in masters {
            wait_until(&format!("master {n} has {jid} of {ids:?}"), || {
                self.returned(*n, jid) == ids
            });
        }
    }

    /// What a master has in its job cache: of each job, who was to return, and who has.
    pub fn job_cache(&self, n: usize) -> BTreeMap<Jid, (Vec<String>, Vec<String>)> {
        let store = jobs(&self.masters[n]);
        let all = store.list().expect("jobs can be listed");
        let whole = |jid: Jid| {
            let job = store.get(&jid).expect("jobs can be read")?;
            let mut returned: Vec<String> = job.returns.into_iter().map(|one| one.id).collect();
            returned.sort_unstable();
            Some((jid, (job.minions, returned)))
        };
        all.into_iter().filter_map(|(jid, _)| whole(jid)).collect()
    }

    /// Number of results that a minion has and no master has acknowledged.
    pub fn unsent(&self, minion: &Minion) -> usize {
        let files = fs::read_dir(minion.home.cache().join("returns"));
        files.map_or(0, Iterator::count)
    }

    /// Whether the master of one of the three minions has its return of a job.
    pub fn returned_of(&self, minion: &Minion, jid: &Jid) -> bool {
        let n = self.minions.iter().position(|one| one.id == minion.id);
        let n = n.expect("it is one of the three");
        self.returned(n, jid).contains(&minion.id)
    }

    /// Waits until all masters have the same jobs, with a return of exactly the minions that have run each. Of `more`, what they
    /// ran when their key was deleted is missing.
    ///
    /// # Panics
    /// If a minion, one of `more` or of the three, has run a job twice.
    pub fn wait_settled(&self, more: &[&Minion]) {
        let minions: Vec<&Minion> = self.minions.iter().chain(more.iter().copied()).collect();
        for minion in &minions {
            wait_until(&format!("{} has sent all it has", minion.id), || {
                self.unsent(minion) == 0
            });
        }
        let deleted: Vec<&str> = more.iter().map(|one| one.id.as_str()).collect();
        wait_without(|| self.difference(&minions, &deleted));
    }

    /// A job that not all masters have, or not with the returns of the minions that have run it. Those that are deleted may lack some.
    fn difference(&self, minions: &[&Minion], deleted: &[&str]) -> Option<String> {
        let caches = [0, 1, 2].map(|n| self.job_cache(n));
        let ran: Vec<_> = minions.iter().map(|one| (one, runs_of(one))).collect();
        let jobs: BTreeSet<&Jid> = caches.iter().flat_map(BTreeMap::keys).collect();
        jobs.into_iter().find_map(|jid| {
            let found = [0, 1, 2].map(|n| caches[n].get(jid));
            let mut done = Vec::new();
            for (minion, times) in &ran {
                let times = times.get(jid.as_str()).copied().unwrap_or(0);
                assert!(times < 2, "{} has run {jid} {times} times", minion.id);
                let is_there = || found[0].is_some_and(|(_, all)| all.contains(&minion.id));
                let counts = !deleted.contains(&minion.id.as_str()) || is_there();
                done.extend((times > 0 && counts).then(|| minion.id.clone()));
            }
            done.sort_unstable();
            let is_right = found[0].is_some_and(|(_, returned)| *returned == done);
            let are_same = found[0] == found[1] && found[0] == found[2];
            (!is_right || !are_same)
                .then(|| format!("{jid}: {done:?} have run it; the masters have {found:?}"))
        })
    }
}

impl Drop for ThreeByThree {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (n, server) in self.servers.iter().enumerate() {
                let streams = on(&self.network, n, || server.streams());
                eprintln!("--- what server {n} has: {streams:#}");
            }
        }
    }
}

/// How often a minion has begun each job, by its log.
fn runs_of(minion: &Minion) -> BTreeMap<String, usize> {
    let log = fs::read_to_string(minion.home.log()).unwrap_or_default();
    let mut out = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(" runs ")) {
        if let Some((_, jid)) = line.rsplit_once(" with jid ") {
            *out.entry(jid.to_owned()).or_default() += 1;
        }
    }
    out
}

/// Hears of returns on the event bus of a master, until this is dropped.
pub struct Ear {
    heard: Arc<Mutex<BTreeMap<String, usize>>>,
    done: Arc<AtomicBool>,
}

impl Ear {
    /// At this master.
    pub fn at(master: &Master) -> Ear {
        let mut bus = Subscriber::connect(master.bus()).expect("the bus is there");
        let heard = Arc::<Mutex<BTreeMap<String, usize>>>::default();
        let done = Arc::<AtomicBool>::default();
        let ear = Ear {
            heard: heard.clone(),
            done: done.clone(),
        };
        std::thread::spawn(move || {
            while !done.load(Ordering::Acquire) {
                let Ok(event) = bus.next(Some(Duration::from_millis(100))) else {
                    return;
                };
                let Some(event) = event.filter(|event| event.tag.contains("/ret/")) else {
                    continue;
                };
                let mut heard = heard.lock().expect("nobody panics with it");
                *heard.entry(event.tag).or_default() += 1;
            }
        });
        ear
    }

    /// How often it has heard the return of a minion for a job.
    pub fn times(&self, jid: &Jid, id: &str) -> usize {
        let heard = self.heard.lock().expect("nobody panics with it");
        let tag = format!("salt/job/{jid}/ret/{id}");
        heard.get(&tag).copied().unwrap_or(0)
    }

    /// Returns that were heard more than once.
    pub fn repeated(&self) -> Vec<String> {
        let heard = self.heard.lock().expect("nobody panics with it");
        let often = heard.iter().filter(|(_, times)| **times > 1);
        often.map(|(tag, _)| tag.clone()).collect()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
    }
}

fn on<T: Send>(network: &Option<Network>, n: usize, run: impl FnOnce() -> T + Send) -> T {
    match network {
        Some(network) => network.at(n, run),
        None => run(),
    }
}

fn number_of(name: &str) -> usize {
    let found = (0..3).find(|n| server_name(*n) == name);
    found.unwrap_or_else(|| panic!("there is no server {name}"))
}
