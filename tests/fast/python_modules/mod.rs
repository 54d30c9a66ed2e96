//! Users' Python modules, states, grains and renderers in the host process of a job (docs/python.md).
//!
//! The outcomes of a corpus of 134 files are compared with stock's in `tests/stock/python.rs`.

mod files;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testing::wait_until;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(options: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        let root = tree.dir().display();
        let text = format!(
            "id: m1\nfile_client: local\nroot_dir: {root}\nextension_modules: {root}/ext\nfile_roots: {{base: [{root}/srv]}}\n\
             pillar_roots: {{base: [{root}/pillar]}}\n{options}\n"
        );
        tree.write("minion", &text);
        tree
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite-call"));
        command
            .arg("-c")
            .arg(self.dir())
            .args(["--local", "--out=json", "--retcode-passthrough"])
            .args(args);
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a function returns.
    fn call(&self, args: &[&str]) -> serde_json::Value {
        let out = self.output(args);
        let text = String::from_utf8_lossy(&out.stdout);
        let shown = format!("{args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
        let value: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {shown}"));
        value["local"].clone()
    }

    /// What a call says on standard error.
    fn words(&self, args: &[&str]) -> String {
        String::from_utf8(self.output(args).stderr).unwrap()
    }
}

#[test]
fn functions_states_grains_and_renderers_work_together() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/shop.py",
        "\
\"\"\"A shop's functions.\"\"\"
__virtualname__ = 'corner'
def __virtual__():
    return __virtualname__
def price(item, count=1):
    '''What it costs.'''
    return [item, count, __grains__['street'], __salt__['test.echo'](text=item)]
",
    );
    tree.write(
        "ext/grains/place.py",
        "def place():\n    return {'street': 'High Street'}\n",
    );
    tree.write(
        "ext/utils/words.py",
        "def loud(text):\n    return text.upper()\n",
    );
    tree.write(
        "ext/states/stall.py",
        "\
import os
def built(name, colour='red'):
    if __opts__['test']:
        return {'name': name, 'result': None, 'changes': {}, 'comment': 'would be built'}
    return {'name': name, 'result': True, 'changes': {'colour': colour},
            'comment': __utils__['words.loud'](__salt__['corner.price'](name)[0])}
def mod_watch(name, **kwargs):
    return {'name': name, 'result': True, 'changes': {'watched': kwargs['sfun']}, 'comment': ''}
def there(name):
    return {'name': name, 'result': True, 'changes': {}, 'comment': ''}
def pid(name):
    return {'name': name, 'result': True, 'changes': {}, 'comment': str(os.getpid())}
",
    );
    tree.write("ext/renderers/shout.py", "def render(data, saltenv='base', sls='', **kwargs):\n    return data.read().replace('QUIET', 'LOUD')\n");
    tree.write("srv/fair.sls", "#!shout|jinja|yaml\na:\n  stall.built:\n    - colour: QUIET {{ salt['corner.price']('x')[1] }}\nb:\n  stall.there:\n    - watch:\n      - stall: a\np1:\n  stall.pid: []\np2:\n  stall.pid: []\n");
    tree.write("srv/code.sls", "#!py\ndef run():\n    return {'c': {'test.nop': [{'name': __salt__['corner.price']('y')[0]}]}}\n");
    assert_eq!(
        tree.call(&["corner.price", "apple", "count=3"]),
        serde_json::json!(["apple", 3, "High Street", "apple"])
    );
    assert_eq!(
        tree.call(&["sys.doc", "corner.price"])["corner.price"],
        "What it costs."
    );
    let ret = tree.call(&["state.apply", "fair"]);
    assert_eq!(ret["stall_|-a_|-a_|-built"]["changes"]["colour"], "LOUD 1");
    assert_eq!(ret["stall_|-a_|-a_|-built"]["comment"], "A");
    assert_eq!(
        ret["stall_|-b_|-b_|-there"]["changes"]["watched"], "there",
        "{ret}"
    );
    // One process for all states of a run.
    let pid = |id: &str| ret[format!("stall_|-{id}_|-{id}_|-pid")]["comment"].clone();
    assert_eq!(pid("p1"), pid("p2"));
    let tested = tree.call(&["state.apply", "fair", "test=True"]);
    assert_eq!(tested["stall_|-a_|-a_|-built"]["comment"], "would be built");
    let ret = tree.call(&["state.apply", "code"]);
    assert_eq!(ret["test_|-c_|-y_|-nop"]["result"], true, "{ret}");
}

/// A minion whose jobs use no Python starts none, whatever files there are.
#[test]
fn python_is_started_only_where_it_is_needed() {
    let tree = Tree::new("python: /nonexistent/python3");
    tree.write("ext/modules/own.py", "def f():\n    return 1\n");
    tree.write("ext/states/mine.py", "def f(name):\n    pass\n");
    tree.write("srv/plain.sls", "a:\n  test.nop: []\n");
    assert_eq!(tree.call(&["test.ping"]), true);
    assert_eq!(
        tree.call(&["state.apply", "plain"])["test_|-a_|-a_|-nop"]["result"],
        true
    );
    let words = tree.words(&["nosuch.function"]);
    assert!(
        words.contains("'nosuch.function' is not available."),
        "{words}"
    );
    // It says so where it is needed.
    let words = tree.words(&["own.f"]);
    assert!(
        words.contains("/nonexistent/python3 cannot be started")
            && words.contains("option `python`"),
        "{words}"
    );
}

/// A host that dies is one failed function; the next one gets another host.
#[test]
fn a_host_that_dies_is_one_failed_state() {
    let tree = Tree::new("");
    tree.write(
        "ext/states/risky.py",
        "\
import os, signal
def dies(name):
    os.kill(os.getpid(), signal.SIGKILL)
def lives(name):
    return {'name': name, 'result': True, 'changes': {}, 'comment': 'alive'}
",
    );
    tree.write(
        "srv/both.sls",
        "a:\n  risky.dies: []\nb:\n  risky.lives: []\n",
    );
    let ret = tree.call(&["state.apply", "both"]);
    let died = ret["risky_|-a_|-a_|-dies"].clone();
    assert_eq!(died["result"], false);
    assert!(
        died["comment"]
            .as_str()
            .unwrap()
            .contains("the Python process has ended (signal: 9"),
        "{died}"
    );
    assert_eq!(ret["risky_|-b_|-b_|-lives"]["comment"], "alive");
}

/// Whether a process is there and has not ended, reaped or not.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// When a job is killed its host is, even in code that never lets another thread run, and what it has started.
#[test]
fn a_host_ends_with_its_job() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/busy.py",
        "\
import os, subprocess, sys
def spin():
    child = subprocess.Popen(['sleep', '1000'])
    with open(os.path.join(os.path.dirname(__file__), 'pids'), 'w') as file:
        file.write('%d %d\\n' % (os.getpid(), child.pid))
    sum(range(10 ** 14))
",
    );
    let mut job = tree
        .command(&["busy.spin"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let note = tree.dir().join("ext/modules/pids");
    let pids = || {
        std::fs::read_to_string(&note)
            .ok()
            .filter(|text| text.ends_with('\n'))
    };
    wait_until("the function runs", || pids().is_some());
    let pids: Vec<i32> = pids()
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    job.kill().unwrap();
    job.wait().unwrap();
    wait_until("both are gone", || !pids.iter().any(|pid| is_running(*pid)));
}

/// What functions log has its level, also if they import `logging` when they run.
#[test]
fn what_is_logged_is_told() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/late.py",
        "def f():\n    import logging\n    logging.getLogger(__name__).error('late words')\n    return 1\n",
    );
    let words = tree.words(&["late.f"]);
    assert!(
        words.contains("late words") && words.contains("ERROR"),
        "{words}"
    );
}

/// What Salt's loader has among utilities is there, and functions that change their argument do.
#[test]
fn functions_of_salt_do_what_modules_rely_on() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/uses.py",
        "\
def f():
    d = {'a': {'b': 1}}
    __salt__['defaults.merge'](d, {'a': {'c': 2}})
    __salt__['defaults.merge'](d, {'x': 1}, in_place=False)
    low = {'state': 's', '__id__': 'i', 'name': 'n', 'fun': 'f'}
    return [d, __utils__['state.gen_tag'](low), 'no.such' in __utils__]
",
    );
    let want = serde_json::json!([{"a": {"b": 1, "c": 2}}, "s_|-i_|-n_|-f", false]);
    assert_eq!(tree.call(&["uses.f"]), want);
}

/// A file that asks for a renderer that is not there is no success.
#[test]
fn a_renderer_that_is_missing_is_an_error() {
    let tree = Tree::new("");
    tree.write("srv/odd.sls", "#!jinja|nosuch\na: {test.nop: []}\n");
    tree.write("srv/good.sls", "b: {test.nop: []}\n");
    let ret = tree.call(&["state.apply", "good,odd"]);
    let why = "The renderer \"nosuch\" is not available";
    assert!(
        ret[0].as_str().is_some_and(|text| text.contains(why)),
        "{ret}"
    );
}

/// What a function prints is no answer, and its standard input is empty.
#[test]
fn prints_do_not_end_in_answers() {
    let tree = Tree::new("log_level: info");
    tree.write(
        "ext/modules/says.py",
        "\
import os, sys
def hello():
    print('printed words')
    os.write(1, b'raw words\\n')
    os.system('echo words of a child')
    return [sys.stdin.read(), 'returned']
",
    );
    let mut job = tree
        .command(&["-l", "info", "says.hello"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    job.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let lines: Vec<String> = BufReader::new(job.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    let out = job.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "{\n    \"local\": [\n        \"\",\n        \"returned\"\n    ]\n}\n"
    );
    for words in ["printed words", "raw words", "words of a child"] {
        assert!(
            lines.iter().any(|line| line.contains(words)),
            "{words}: {lines:?}"
        );
    }
}

/// A module that leaves a question before its answer is there, or forks, gets no answer that is for another question.
#[test]
fn answers_go_to_their_questions() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/odd.py",
        "\
import os, signal, sys, threading, time
def _stop(*args):
    raise TimeoutError('too slow')
def alarm():
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        __salt__['cmd.run']('sleep 0.6; echo first', python_shell=True)
        return 'not stopped'
    except TimeoutError:
        return [__salt__['test.echo']('second'), __salt__['test.echo']('third')]
def forks():
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    return __salt__['test.echo']('of the parent')
def threads():
    found = {}
    def ask(n):
        for turn in range(20):
            found.setdefault(n, []).append(__salt__['test.echo']('%d %d' % (n, turn)))
    workers = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    [one.start() for one in workers]
    [one.join() for one in workers]
    return all(found[n] == ['%d %d' % (n, turn) for turn in range(20)] for n in range(4))
def swaps():
    __salt__['state.single']('test.nop', name='x', pillar={'swapped': 'yes'})
    return __pillar__.get('swapped', 'as before')
def beside():
    ret = __salt__['state.high']({'a': {'module': ['run', {'name': 'odd.one'}, {'parallel': True}]}})
    return [one['result'] for one in ret.values()]
def one():
    return 1
def huge():
    return 1 << 3000000
def deep(n):
    return __salt__['slsutil.renderer'](string='#!py\\ndef run():\\n    return {\"v\": __salt__[\"odd.deep\"](%d)}' % (n + 1))
",
    );
    assert_eq!(
        tree.call(&["odd.alarm"]),
        serde_json::json!(["second", "third"])
    );
    assert_eq!(tree.call(&["odd.forks"]), "of the parent");
    assert_eq!(tree.call(&["odd.threads"]), true);
    assert_eq!(tree.call(&["odd.swaps"]), "as before");
    assert_eq!(tree.call(&["odd.beside"]), serde_json::json!([true]));
    let words = tree.words(&["odd.huge"]);
    assert!(words.contains("a value of type 'l'"), "{words}");
    let words = tree.words(&["odd.deep", "0"]);
    assert!(
        words.contains("maximum recursion depth exceeded"),
        "{words}"
    );
}

/// What a function has started lives on after the end of its job, as in Salt.
#[test]
fn programs_of_functions_outlive_a_job_that_ends() {
    let tree = Tree::new("");
    tree.write(
        "ext/modules/starts.py",
        "import subprocess\ndef sleeper():\n    return subprocess.Popen(['sleep', '300']).pid\n",
    );
    let pid = i32::try_from(tree.call(&["starts.sleeper"]).as_i64().unwrap()).unwrap();
    assert!(is_running(pid));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

#[test]
fn a_reaction_in_python_sees_the_event_and_calls_a_runner_in_python() {
    let tree = tempfile::tempdir().unwrap();
    let at = |name: &str| tree.path().join(name);
    std::fs::create_dir(at("runners")).unwrap();
    let noted = at("noted");
    let runner = format!(
        "def note(what):\n    open('{}', 'a').write(what + '\\n')\n    return True\n",
        noted.display()
    );
    std::fs::write(at("runners/shop.py"), runner).unwrap();
    let reaction = "#!py\ndef run():\n    \
        return {'r': {'runner.shop.note': [{'what': data['word'] + ' ' + tag}]}}\n";
    std::fs::write(at("note.sls"), reaction).unwrap();
    let master = testing::Master::halite(&format!(
        "runner_dirs: [{0}/runners]\nreactor: [{{'shop/*': [{0}/note.sls]}}]",
        tree.path().display()
    ));
    let cli = master.halite_cli();
    wait_until("the reaction has run", || {
        let sent = cli.runner(&["event.send", "shop/open", "{word: hello}"]);
        sent.ok().expect("the master runs");
        std::fs::read_to_string(&noted).is_ok_and(|text| text.contains("hello shop/open"))
    });
}

/// Executors, matchers, `sdb` and outputters of users.
#[test]
fn what_stands_around_functions_may_be_python() {
    let tree = Tree::new(
        "vault: {driver: safe}\nmodule_executors: [counting, direct_call]\nshown: sdb://vault/shown",
    );
    tree.write(
        "ext/executors/counting.py",
        "def execute(opts, data, func, args, kwargs):\n    if data['fun'] == 'test.echo':\n        return [opts['id'], func(*args, **kwargs)]\n",
    );
    tree.write(
        "ext/matchers/glob_match.py",
        "def match(tgt, opts=None, minion_id=None):\n    return (minion_id or opts['id'])[::-1] == tgt\n",
    );
    tree.write(
        "ext/matchers/even_match.py",
        "def match(tgt):\n    return len(__opts__['id']) % 2 == int(tgt)\n",
    );
    tree.write(
        "srv/top.sls",
        "base:\n  '0':\n    - match: even\n    - one\n  '1':\n    - match: even\n    - two\n",
    );
    tree.write(
        "ext/sdb/safe.py",
        "__func_alias__ = {'set_': 'set'}\nPLACE = __file__ + '.%s'\n\
         def get(key, profile=None):\n    try:\n        return open(PLACE % key).read()\n    except OSError:\n        return None\n\
         def set_(key, value, profile=None):\n    open(PLACE % key, 'w').write(value)\n    return profile['driver']\n",
    );
    tree.write(
        "ext/output/loud.py",
        "def output(data, **kwargs):\n    return str(data['local'] / 2) if type(data['local']) is int else None\n",
    );
    assert_eq!(
        tree.call(&["test.echo", "x"]),
        serde_json::json!(["m1", "x"])
    );
    assert_eq!(
        tree.call(&["test.arg", "x"])["args"],
        serde_json::json!(["x"])
    );
    assert_eq!(
        tree.call(&["--module-executors=direct_call", "test.echo", "x"]),
        "x"
    );
    let nobody = tree.words(&["--module-executors=counting", "test.arg"]);
    let why = "None of the executors counting has run it";
    assert!(nobody.contains(why), "{nobody}");
    assert_eq!(tree.call(&["match.glob", "1m"]), true);
    assert_eq!(tree.call(&["match.glob", "m*"]), false);
    assert_eq!(
        tree.call(&["state.show_top"]),
        serde_json::json!({"base": ["one"]})
    );
    assert_eq!(
        tree.call(&["sdb.get", "sdb://vault/key"]),
        serde_json::Value::Null
    );
    assert_eq!(tree.call(&["sdb.set", "sdb://vault/key", "gold"]), "safe");
    assert_eq!(tree.call(&["sdb.get", "sdb://vault/key"]), "gold");
    let made = tree.call(&["sdb.get_or_set_hash", "sdb://vault/shown", "length=12"]);
    assert_eq!(made.as_str().map(str::len), Some(12), "{made}");
    assert_eq!(tree.call(&["config.get", "shown"]), made);
    let shown = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite-call"));
        let out = command
            .arg("-c")
            .arg(tree.dir())
            .args(["--local", "--out=loud"])
            .args(args)
            .output();
        let out = out.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&out.stdout), text(&out.stderr))
    };
    assert_eq!(
        shown(&["--module-executors=direct_call", "test.echo", "3"]).0,
        "1.5\n"
    );
    let (out, err) = shown(&["test.ping"]);
    assert!(
        out.contains("True") && err.contains("returned nothing"),
        "{out}{err}"
    );
    tree.write(
        "ext/output/loud.py",
        "def output(data):\n    return data['nothing']\n",
    );
    let (out, err) = shown(&["test.ping"]);
    assert!(
        out.contains("True") && err.contains("nested is used"),
        "{out}{err}"
    );
}
