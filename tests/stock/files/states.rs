//! States of a real tree, applied by stock minions.

use crate::files::Fleet;
use serde_json::{Map, Value, json};
use std::path::Path;
use testing::check::same;
use testing::{Checks, Cli};

const IDS: [&str; 2] = ["m3006", "m3008"];

const WEB: &str = "\
{% set dir = opts['root_dir'] ~ '/web' %}
{{ dir }}/motd:
  file.managed:
    - source: salt://web/files/motd.jinja
    - template: jinja
    - makedirs: True
    - context: {who: {{ grains['id'] }}}

{{ dir }}/tree:
  file.recurse:
    - source: salt://web/files/tree
    - include_empty: True
    - require:
      - file: {{ dir }}/motd

when the greeting changes:
  cmd.run:
    - name: echo changed
    - onchanges:
      - file: {{ dir }}/motd

as long as the tree is watched:
  cmd.wait:
    - name: echo watched
    - watch:
      - file: {{ dir }}/tree

a state of our own:
  own.checked:
    - name: {{ salt['own.word']() }}
    - grain: {{ grains['own_grain'] }}
";

const MODULE: &str = "def word():\n    return 'custom'\n";
const GRAIN: &str = "def own():\n    return {'own_grain': 'ripe'}\n";
const STATE: &str = "\
def checked(name, grain):
    good = name == 'custom' and grain == 'ripe'
    return {'name': name, 'result': good, 'changes': {}, 'comment': grain}
";

/// Adds states and custom modules to the tree of the environment base.
pub fn build(base: &Path) {
    let put = |path: &str, content: &str| {
        let path = base.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    put("top.sls", "base:\n  '*':\n    - web\n");
    put("web/init.sls", WEB);
    put("web/files/motd.jinja", "Hello {{ who }}\n");
    put("web/files/tree/one", "one");
    put("web/files/tree/sub/two", "two");
    std::fs::create_dir_all(base.join("web/files/tree/hollow")).unwrap();
    put("_modules/own.py", MODULE);
    put("_grains/own_grain.py", GRAIN);
    put("_states/own.py", STATE);
}

pub fn all(fleet: &Fleet, checks: &mut Checks) {
    let cli = &fleet.master.halite_cli();
    checks.run("saltutil.sync_all", || sync(cli));
    checks.run("state.apply changes", || apply(fleet, cli, true));
    checks.run("state.apply again changes nothing", || {
        apply(fleet, cli, false)
    });
    checks.run("a changed source is seen", || {
        let path = fleet.top.join("base/web/files/motd.jinja");
        std::fs::write(path, "Bye {{ who }}\n").map_err(|e| e.to_string())?;
        let all = run(cli)?;
        for id in IDS {
            let states = all[id].as_object().ok_or("no map of states")?;
            same(changed(states), vec!["cmd", "file"]).map_err(|e| format!("{id}: {e}"))?;
        }
        Ok(())
    });
}

fn sync(cli: &Cli) -> Result<(), String> {
    let all = cli.ask(&["*", "saltutil.sync_all", "-t", "90"])?;
    for id in IDS {
        same(&all[id]["modules"], &json!(["modules.own"])).map_err(|e| format!("{id}: {e}"))?;
        same(&all[id]["states"], &json!(["states.own"])).map_err(|e| format!("{id}: {e}"))?;
        same(&all[id]["grains"], &json!(["grains.own_grain"])).map_err(|e| format!("{id}: {e}"))?;
    }
    let words = cli.ask(&["*", "own.word"])?;
    same(words.values().all(|w| w == "custom"), true)
}

fn run(cli: &Cli) -> Result<Map<String, Value>, String> {
    let all = cli.ask(&["*", "state.apply", "-t", "90"])?;
    for id in IDS {
        let states = all.get(id).and_then(Value::as_object);
        let states = states.ok_or_else(|| format!("{id}: {:?}", all.get(id)))?;
        same(states.len(), 5).map_err(|e| format!("{id}: {e}: {states:?}"))?;
        for (name, state) in states {
            same(&state["result"], &json!(true))
                .map_err(|e| format!("{id} {name}: {e}: {state}"))?;
        }
    }
    Ok(all)
}

/// Modules of the states with changes, sorted.
fn changed(states: &Map<String, Value>) -> Vec<&str> {
    let mut modules: Vec<&str> = states
        .iter()
        .filter(|(_, state)| state["changes"].as_object().is_some_and(|c| !c.is_empty()))
        .filter_map(|(name, _)| name.split("_|-").next())
        .collect();
    modules.sort_unstable();
    modules
}

fn apply(fleet: &Fleet, cli: &Cli, first: bool) -> Result<(), String> {
    let all = run(cli)?;
    for id in IDS {
        let states = all[id].as_object().ok_or("no map of states")?;
        let expected: &[&str] = if first {
            &["cmd", "cmd", "file", "file"]
        } else {
            &[]
        };
        same(changed(states), expected.to_vec()).map_err(|e| format!("{id}: {e}"))?;
        let dir = fleet.master.place(id).join("web");
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        same(read("motd"), format!("Hello {id}\n").trim_end().to_owned())
            .or(same(read("motd"), format!("Hello {id}\n")))?;
        same(
            (read("tree/one"), read("tree/sub/two")),
            ("one".into(), "two".into()),
        )?;
        same(dir.join("tree/hollow").is_dir(), true)?;
    }
    Ok(())
}
