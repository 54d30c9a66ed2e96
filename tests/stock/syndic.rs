//! A master of masters, a master below it with a syndic between them, and two minions: jobs go down
//! and each return comes up, once, whatever is ended on the way.

use halite_ipc::Subscriber;
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use testing::process::Process;
use testing::{Cli, Master, Minion, Stock, halite_program, wait_for, wait_until};

const UPPER: &str = "auto_accept: true\norder_masters: true\nsyndic_wait: 3\n";
const IDS: [&str; 2] = ["below1", "below2"];

/// The whole of it; dropped from the syndic up.
struct Tree {
    syndic: Option<Process>,
    program: PathBuf,
    minions: Vec<Minion>,
    lower: Master,
    upper: Master,
    /// At the upper master.
    cli: Cli,
    dir: tempfile::TempDir,
}

/// A job that waits for a word, so that something can be ended while it runs.
struct Waiting {
    jid: String,
    dir: PathBuf,
    bus: Subscriber,
}

impl Tree {
    fn start(upper: Master, lower: fn(&str) -> Master, program: PathBuf, cli: Cli) -> Tree {
        Tree::with(upper, lower, &own_minions, program, cli, "")
    }

    /// `extra`: lines for the syndic.
    fn with(
        upper: Master,
        lower: fn(&str) -> Master,
        minions: &dyn Fn(&Master) -> Vec<Minion>,
        program: PathBuf,
        cli: Cli,
        extra: &str,
    ) -> Tree {
        let lower = lower(&format!(
            "auto_accept: true\nsyndic_master: 127.0.0.1\nsyndic_master_port: {}\n\
             syndic_event_forward_timeout: 0.1\n",
            upper.ret_port
        ));
        // A stock syndic takes a port of publications in its configuration for the upper
        // master's, also if it stands there for the lower one; hence it is named here.
        let minion = format!(
            "root_dir: {}\nid: lower\nuser: root\nmaster: 127.0.0.1\npublish_port: {}\n\
             acceptance_wait_time: 1\n{extra}\n",
            lower.home.root().display(),
            upper.publish_port
        );
        std::fs::write(lower.home.config_dir().join("minion"), minion).unwrap();
        let minions = minions(&lower);
        let mut tree = Tree {
            syndic: None,
            program,
            minions,
            lower,
            upper,
            cli,
            dir: testing::short_dir(),
        };
        tree.start_syndic();
        tree.wait_whole();
        tree
    }

    fn halite(upper: Master, cli: Cli) -> Tree {
        Tree::start(upper, Master::halite, halite_program("halite-syndic"), cli)
    }

    fn start_syndic(&mut self) {
        let mut command = Command::new(&self.program);
        command
            .arg("-c")
            .arg(self.lower.home.config_dir())
            .args(["-l", "info"]);
        let log = self.dir.path().join("syndic.log");
        self.syndic = Some(Process::start("the syndic", &mut command, &log));
    }

    fn kill_syndic(&mut self) {
        let mut syndic = self.syndic.take().unwrap();
        syndic.signal(Signal::SIGKILL);
        syndic.stop();
    }

    fn wait_whole(&mut self) {
        wait_until("both minions answer from above", || {
            self.minions.iter_mut().for_each(Minion::must_live);
            self.syndic.as_mut().unwrap().must_live();
            // A stock master that has just begun may leave the program without an answer.
            let said = self.cli.ask(&["*", "test.ping", "-t", "3"]);
            said.is_ok_and(|said| self.returned(said).len() == IDS.len())
        });
    }

    /// What the minions returned. The syndic is no minion: halite says nothing of it, stock
    /// that it did not return.
    fn ask(&self, args: &[&str]) -> Map<String, Value> {
        self.returned(self.cli.ask(args).unwrap())
    }

    fn returned(&self, mut said: Map<String, Value>) -> Map<String, Value> {
        if !self.cli.is_halite() {
            said.remove("lower");
            said.retain(|_, value| *value != json!(false));
        }
        said
    }

    fn jobs(&self) {
        let both = |value: Value| -> Map<String, Value> {
            IDS.iter()
                .map(|id| (id.to_string(), value.clone()))
                .collect()
        };
        assert_eq!(self.ask(&["*", "test.ping", "-t", "8"]), both(json!(true)));
        let echo = ["-L", "below1,below2", "cmd.run", "echo grüße", "-t", "8"];
        assert_eq!(self.ask(&echo), both(json!("grüße")));
        let one = self.ask(&["-L", "below2", "test.arg", "7", "x=[a]", "-t", "8"]);
        assert_eq!(one.keys().collect::<Vec<_>>(), ["below2"]);
        assert_eq!(one["below2"]["args"], json!([7]));
        assert_eq!(one["below2"]["kwargs"]["x"], json!(["a"]));

        let jid = self.publish(&["*", "test.echo", "later"]);
        self.wait_returned(&jid, &json!("later"));
    }

    /// Publishes without waiting, and gives the job's id.
    fn publish(&self, args: &[&str]) -> String {
        let mut all = vec!["--async"];
        all.extend(args);
        let said = self.cli.salt(&all).ok().unwrap();
        said.split_whitespace().last().unwrap().to_owned()
    }

    /// What the upper master's job cache has of it.
    fn looked_up(&self, jid: &str) -> Value {
        let ran = self.cli.runner(&["jobs.lookup_jid", jid, "--out=json"]);
        ran.json().unwrap_or_default()
    }

    fn wait_returned(&self, jid: &str, value: &Value) {
        wait_until("the upper master has both returns", || {
            let all = self.looked_up(jid);
            IDS.iter().all(|id| all.get(id) == Some(value))
        });
    }

    /// A job that both minions execute now.
    fn begin(&self, name: &str) -> Waiting {
        let dir = self.dir.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let bus = Subscriber::connect(self.upper.bus()).unwrap();
        let at = dir.display();
        let line = format!(
            "echo x >> {at}/begun; while [ ! -e {at}/go ]; do sleep 0.05; done; echo x >> {at}/done; echo {name}"
        );
        let jid = self.publish(&["*", "cmd.run", &line]);
        let job = Waiting { jid, dir, bus };
        wait_until("both minions have begun", || {
            job.lines("begun") == IDS.len()
        });
        job
    }

    /// Both returns are with the upper master, each was told once, and each command ran once.
    fn complete(&self, mut job: Waiting, name: &str) {
        self.wait_returned(&job.jid, &json!(name));
        // A later job whose returns have come: anything told twice has come before them.
        let later = self.publish(&["*", "test.echo", "later"]);
        self.wait_returned(&later, &json!("later"));
        let told = job.told(&later);
        assert!(told.iter().all(|(_, n)| *n == 1), "told twice: {told:?}");
        assert_eq!((job.lines("begun"), job.lines("done")), (2, 2));
    }

    fn killed_syndic(&mut self) {
        let job = self.begin("killed");
        self.kill_syndic();
        job.go();
        // The returns are with the lower master before anybody brings them up.
        let lower = self.lower.halite_cli();
        wait_for("the lower master has both", || {
            let all = lower
                .runner(&["jobs.lookup_jid", &job.jid, "--out=json"])
                .json()
                .ok()?;
            (all.as_object()?.len() == IDS.len()).then_some(())
        });
        self.start_syndic();
        self.complete(job, "killed");
    }

    fn restarted_lower(&mut self) {
        let job = self.begin("lower");
        self.lower.stop();
        job.go();
        self.lower.start_again();
        // Minions hear a later job only when their publications have come back.
        self.wait_whole();
        self.complete(job, "lower");
    }

    fn restarted_upper(&mut self) {
        let mut job = self.begin("upper");
        self.upper.stop();
        job.go();
        self.upper.start_again();
        job.bus = Subscriber::connect(self.upper.bus()).unwrap();
        self.wait_whole();
        self.complete(job, "upper");
    }
}

impl Waiting {
    fn go(&self) {
        std::fs::write(self.dir.join("go"), "").unwrap();
        wait_until("both commands are done", || self.lines("done") == IDS.len());
    }

    fn lines(&self, file: &str) -> usize {
        let text = std::fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        text.lines().count()
    }

    /// How often each return was told on the upper master's bus, until both of `later` were.
    fn told(&mut self, later: &str) -> Vec<(String, usize)> {
        let mut told: Vec<(String, usize)> = Vec::new();
        let mut ends = 0;
        while ends < IDS.len() {
            let event = self.bus.next(Some(Duration::from_secs(60))).unwrap();
            let tag = event.expect("the later job is told too").tag;
            if tag.starts_with(&format!("salt/job/{later}/ret/")) {
                ends += 1;
            }
            let Some(id) = tag.strip_prefix(&format!("salt/job/{}/ret/", self.jid)) else {
                continue;
            };
            match told.iter_mut().find(|(known, _)| known == id) {
                Some((_, count)) => *count += 1,
                None => told.push((id.to_owned(), 1)),
            }
        }
        told
    }
}

/// Two masters of masters above one lower master.
struct Twins {
    syndic: Process,
    _minions: Vec<Minion>,
    lower: Master,
    uppers: [Master; 2],
    dir: tempfile::TempDir,
}

impl Twins {
    fn start(extra: &str) -> Twins {
        // One of each type of key.
        let uppers =
            ["rsa", "ed25519"].map(|kind| Master::halite(&format!("{UPPER}key_type: {kind}\n")));
        let lower = Master::halite(&format!(
            "auto_accept: true\nsyndic_master: ['127.0.0.1:{}', '127.0.0.1:{}']\n\
             syndic_event_forward_timeout: 0.1\n{extra}",
            uppers[0].ret_port, uppers[1].ret_port
        ));
        let minion = format!(
            "root_dir: {}\nid: lower\nkey_type: ed25519\nacceptance_wait_time: 1\nreturn_retry_timer: 1\n\
             return_retry_timer_max: 1\nreturn_retry_tries: 1\n",
            lower.home.root().display(),
        );
        std::fs::write(lower.home.config_dir().join("minion"), minion).unwrap();
        let dir = testing::short_dir();
        let mut command = Command::new(halite_program("halite-syndic"));
        command
            .arg("-c")
            .arg(lower.home.config_dir())
            .args(["-l", "info"]);
        let syndic = Process::start("the syndic", &mut command, &dir.path().join("log"));
        let twins = Twins {
            syndic,
            _minions: IDS.map(|id| Minion::halite(&lower, id, "")).into(),
            lower,
            uppers,
            dir,
        };
        twins.wait_whole(0);
        twins.wait_whole(1);
        twins
    }

    fn wait_whole(&self, upper: usize) {
        let cli = self.uppers[upper].halite_cli();
        wait_until("both minions answer from above", || {
            cli.ask(&["*", "test.ping", "-t", "3"])
                .is_ok_and(|said| said.len() == IDS.len())
        });
    }

    /// Publishes a job at an upper master that runs until a file is there.
    fn begin(&self, upper: usize, word: &str) -> String {
        let at = self.dir.path().display();
        let line = format!(
            "echo x >> {at}/{word}; while [ ! -e {at}/go ]; do sleep 0.05; done; echo {word}"
        );
        let jid = publish(&self.uppers[upper].halite_cli(), &["*", "cmd.run", &line]);
        wait_until("both minions have begun", || {
            lines(&self.dir.path().join(word)) == IDS.len()
        });
        jid
    }

    fn go(&self) {
        std::fs::write(self.dir.path().join("go"), "").unwrap();
    }

    fn wait_returned(&self, upper: usize, jid: &str, word: &str) {
        wait_until("the upper master has both returns", || {
            let all = looked_up(&self.uppers[upper].halite_cli(), jid);
            IDS.iter().all(|id| all.get(id) == Some(&json!(word)))
        });
    }

    /// A later job at the other upper master that has gone its whole way.
    fn later(&self, upper: usize) {
        let jid = publish(
            &self.uppers[upper].halite_cli(),
            &["*", "test.echo", "later"],
        );
        self.wait_returned(upper, &jid, "later");
    }
}

fn publish(cli: &Cli, args: &[&str]) -> String {
    let mut all = vec!["--async"];
    all.extend(args);
    let said = cli.salt(&all).ok().unwrap();
    said.split_whitespace().last().unwrap().to_owned()
}

fn looked_up(cli: &Cli, jid: &str) -> Value {
    let ran = cli.runner(&["jobs.lookup_jid", jid, "--out=json"]);
    ran.json().unwrap_or_default()
}

fn lines(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .count()
}

#[test]
fn two_upper_masters_at_once() {
    let mut twins = Twins::start("");
    let [one, two] = [twins.begin(0, "one"), twins.begin(1, "two")];
    // The second is away when its job ends; the first is served as ever.
    twins.uppers[1].stop();
    twins.go();
    twins.wait_returned(0, &one, "one");
    twins.later(0);
    // Each job's returns are with the master that asked and nowhere else.
    assert_eq!(looked_up(&twins.uppers[0].halite_cli(), &two), json!({}));
    twins.uppers[1].start_again();
    twins.wait_returned(1, &two, "two");
    twins.wait_whole(1);
    twins.later(1);
    assert_eq!(looked_up(&twins.uppers[1].halite_cli(), &one), json!({}));
    for word in ["one", "two"] {
        assert_eq!(lines(&twins.dir.path().join(word)), IDS.len(), "{word}");
    }
    // What no upper master asked for goes to one of them.
    let own = publish(&twins.lower.halite_cli(), &["*", "test.echo", "own"]);
    let has = |upper: usize| {
        let all = looked_up(&twins.uppers[upper].halite_cli(), &own);
        IDS.iter().all(|id| all.get(id) == Some(&json!("own")))
    };
    wait_until("one upper master has the lower one's job", || {
        has(0) || has(1)
    });
    twins.later(0);
    twins.later(1);
    assert!(has(0) != has(1), "both have it");
    twins.syndic.must_live();
}

#[test]
fn in_a_cluster_another_upper_master_gets_returns() {
    let mut twins = Twins::start("syndic_mode: cluster\nsyndic_failover: ordered\n");
    let two = twins.begin(1, "two");
    twins.uppers[1].stop();
    twins.go();
    twins.wait_returned(0, &two, "two");
    twins.syndic.must_live();
}

fn own_minions(lower: &Master) -> Vec<Minion> {
    IDS.map(|id| Minion::halite(lower, id, "")).into()
}

/// As the minion of its upper master, a syndic has each transport of minions.
#[test]
fn over_other_transports() {
    for transport in ["tcp", "ws"] {
        let transport = format!("transport: {transport}");
        let upper = Master::halite(&format!("{UPPER}{transport}\n"));
        let cli = upper.halite_cli();
        let program = halite_program("halite-syndic");
        let below = Master::halite;
        let mut tree = Tree::with(upper, below, &own_minions, program, cli, &transport);
        tree.jobs();
        tree.killed_syndic();
        tree.restarted_upper();
    }
}

fn all(mut tree: Tree) {
    tree.jobs();
    tree.killed_syndic();
    tree.restarted_lower();
    tree.restarted_upper();
}

fn below_halite(series: &str) {
    let upper = Master::halite(&format!("{UPPER}salt_series: '{series}'\n"));
    let cli = upper.halite_cli();
    all(Tree::halite(upper, cli));
}

#[test]
fn below_halite_as_3006() {
    below_halite("3006");
}

#[test]
fn below_halite_as_3008() {
    below_halite("3008");
}

#[test]
fn a_syndic_is_never_missed() {
    let upper = Master::halite(UPPER);
    let cli = upper.halite_cli();
    let tree = Tree::halite(upper, cli);
    let ran = tree.cli.salt(&["*", "test.ping"]);
    let told = format!("{}{}", ran.out, ran.err);
    assert!(
        ran.status == Some(0) && !told.contains("lower"),
        "{}",
        ran.describe()
    );
}

mod stock {
    use super::*;

    /// A halite minion and a stock one below a halite master and a halite syndic.
    fn below_stock(series: &str) {
        let Some(stock) = Stock::find(series) else {
            return;
        };
        let upper = Master::stock(&stock, UPPER);
        let cli = upper.stock_cli(&stock);
        let minions = |lower: &Master| {
            let [one, other] = IDS;
            vec![
                Minion::halite(lower, one, ""),
                Minion::stock(&stock, lower, other, ""),
            ]
        };
        let program = halite_program("halite-syndic");
        all(Tree::with(
            upper,
            Master::halite,
            &minions,
            program,
            cli,
            "",
        ));
    }

    #[test]
    fn below_stock_3006() {
        below_stock("3006");
    }

    #[test]
    fn below_stock_3008() {
        below_stock("3008");
    }

    /// Stock's own syndic below halite. That of 3008.3 cannot send a second message from within
    /// its loop, below a stock master either.
    fn own_syndic(release: &str, lower: fn(&str) -> Master, series: &str) {
        let Some(stock) = Stock::find(release) else {
            return;
        };
        let upper = Master::halite(&format!("{UPPER}salt_series: '{series}'\n"));
        let cli = upper.halite_cli();
        let syndic = stock.program("salt-syndic");
        let tree = Tree::start(upper, lower, syndic, cli);
        tree.jobs();
    }

    fn lower_3007(extra: &str) -> Master {
        Master::stock(&Stock::find("3007").unwrap(), extra)
    }

    #[test]
    fn syndic_of_3007_below_halite() {
        own_syndic("3007", lower_3007, "3008");
    }

    #[test]
    fn syndic_of_3007_between_halites() {
        own_syndic("3007", Master::halite, "3008");
    }

    /// Of the series of the stock program that hears its bus.
    fn lower_as_3006(extra: &str) -> Master {
        Master::halite(&format!("{extra}salt_series: '3006'\n"))
    }

    fn lower_3006(extra: &str) -> Master {
        Master::stock(&Stock::find("3006").unwrap(), extra)
    }

    #[test]
    fn syndic_of_3006_below_halite_as_3006() {
        own_syndic("3006", lower_3006, "3006");
    }

    #[test]
    fn syndic_of_3006_below_halite_as_3008() {
        own_syndic("3006", lower_3006, "3008");
    }

    #[test]
    fn syndic_of_3006_between_halites() {
        let Some(stock) = Stock::find("3006") else {
            return;
        };
        let upper = Master::halite(UPPER);
        let cli = upper.halite_cli();
        let syndic = stock.program("salt-syndic");
        Tree::start(upper, lower_as_3006, syndic, cli).jobs();
    }
}
