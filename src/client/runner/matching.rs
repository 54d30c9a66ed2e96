//! `match.*`: whether a target selects a minion, as seen by the master (`salt/runners/match.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use halite_config::MasterConfig;
use halite_target::{MinionId, Target};
use halite_wire::Value;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "match.compound_matches",
    args: &["expr", "minion_id"],
    doc: "The id under res if the compound target certainly selects the minion, else False. Pillar values are compared exactly.",
    run: compound_matches,
}];

fn compound_matches(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let wanted = args.get(0, "expr").cloned().unwrap_or_default();
    let id = args.text(1, "minion_id").unwrap_or_default();
    let res = match id.parse::<MinionId>() {
        Ok(id) if selects(&context.config, &wanted, &id)? => id.as_str().into(),
        _ => Value::Bool(false),
    };
    Ok(Value::Map(halite_wire::map! {"res" => res}).into())
}

/// Whether a minion is selected for sure: without cached data, targets that need data select every minion, and
/// addresses select those whose data is not known.
fn selects(config: &MasterConfig, wanted: &Value, id: &MinionId) -> Result<bool, RunError> {
    let fleet = Fleet::open(config)?;
    let mut words = wanted.as_str().unwrap_or_default().split_whitespace();
    let by_address = words.any(|word| word.starts_with("S@"));
    if !config.minion_data_cache || (by_address && fleet.grains(id).is_none()) {
        return Ok(false);
    }
    let Ok(target) = Target::parse(wanted, "compound_pillar_exact", None) else {
        return Ok(false);
    };
    let expected = target.expected(&fleet.inventory(), config);
    Ok(expected.minions.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_store::Stores;
    use halite_wire::{Map, map};

    fn config(dir: &std::path::Path, more: Map) -> MasterConfig {
        let groups = map! {"web_group" => "L@web1,db1", "by_pillar" => "I@role:w*"};
        let mut options = map! {
            "root_dir" => dir.to_string_lossy().into_owned(), "log_file" => "/log", "nodegroups" => groups,
        };
        options.0.extend(more.0);
        MasterConfig::from_map(options, &dir.join("etc/halite")).unwrap()
    }

    #[test]
    fn only_what_is_certain_counts() {
        let dir = tempfile::tempdir().unwrap();
        let known = config(dir.path(), Map::new());
        std::fs::create_dir_all(known.minion_keys("minions")).unwrap();
        for id in ["web1", "db1"] {
            std::fs::write(known.minion_keys("minions").join(id), "key").unwrap();
        }
        let grains = map! {"os" => "Debian", "ipv4" => vec![Value::from("10.0.0.1")]};
        let web1: MinionId = "web1".parse().unwrap();
        let cache = Stores::open(&known).minions;
        cache
            .store(&web1, &grains, &map! {"role" => "web"})
            .unwrap();
        let selects = |config: &MasterConfig, expr: &str, id: &str| {
            selects(config, &expr.into(), &id.parse().unwrap()).unwrap()
        };
        for (expr, web1, db1) in [
            ("G@os:Deb*", true, false),
            ("I@role:web", true, false),
            ("I@role:w*", false, false),
            ("J@role:w.*", false, false),
            ("N@web_group", true, true),
            ("N@by_pillar", false, false),
            ("S@10.0.0.0/8", true, false),
            ("L@web1,db1 and not G@os:Debian", false, true),
            ("E@web", true, false),
            ("nobody or (", false, false),
        ] {
            assert_eq!(selects(&known, expr, "web1"), web1, "{expr}");
            assert_eq!(selects(&known, expr, "db1"), db1, "{expr}");
            assert!(!selects(&known, expr, "unknown"), "{expr}");
        }
        let blind = config(dir.path(), map! {"minion_data_cache" => false});
        assert!(!selects(&blind, "G@os:Deb*", "web1"));
    }
}
