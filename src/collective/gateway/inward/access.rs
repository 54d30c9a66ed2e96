//! Which callers may run functions from the collective: `publisher_acl`, with caller ids as users.

use super::nodes::{Node, Nodes};
use crate::wire::CallerId;
use halite_config::MasterConfig;
use halite_master::access::roles::{self, Blacklist};
use halite_master::access::rules::{AuthList, Call, Reach};
use halite_master::access::scope;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The only message for refused requests.
pub(super) const REFUSED: &str = "not authorised";

/// Number of callers whose permissions are cached.
const REMEMBERED: usize = 1_000;

/// The permissions of callers.
pub(super) struct Access {
    acl: Map,
    blacklist: Blacklist,
    nodegroups: Map,
    /// By caller, since patterns take long to compile.
    lists: HashMap<CallerId, Option<AuthList>>,
}

impl Access {
    /// The permissions of the configuration.
    pub fn new(config: &MasterConfig) -> Access {
        Access {
            acl: config.publisher_acl.clone(),
            blacklist: Blacklist::parse(&config.publisher_acl_blacklist),
            nodegroups: config.nodegroups.clone(),
            lists: HashMap::new(),
        }
    }

    /// The permissions of a caller; `None` if there are none.
    ///
    /// The user is the whole caller id. Only keys that start with the kind of the caller and an equals sign apply:
    /// `'*'` or `'.*'` were meant for users of this host and must not grant anything to remote callers.
    fn listed(&mut self, caller: &CallerId) -> Option<AuthList> {
        if let Some(list) = self.lists.get(caller) {
            return list.clone();
        }
        let start = format!("{}=", caller.kind());
        let own = self.acl.iter();
        let own = own.filter(|(key, _)| key.as_str().is_some_and(|key| key.starts_with(&start)));
        let own = Map(own.cloned().collect());
        let list = roles::publisher(&own, caller.as_str());
        if self.lists.len() >= REMEMBERED {
            self.lists.clear();
        }
        self.lists.insert(caller.clone(), list.clone());
        list
    }

    /// Splits nodes into those on which a caller may run a function, and the others.
    pub fn split_allowed(
        &mut self,
        caller: &CallerId,
        fun: &str,
        arg: &[Value],
        asked: Vec<Arc<Node>>,
        all: &Nodes,
    ) -> (Vec<Arc<Node>>, Vec<Arc<Node>>) {
        let refused = self.blacklist.user(caller.as_str()) || self.blacklist.function(&fun.into());
        let list = match self.listed(caller) {
            Some(list) if !refused => list,
            _ => return (Vec::new(), asked),
        };
        let calls = [Call::of_job(fun, arg)];
        if list.publication(&calls, &[], &[], &mut |_| false) == Reach::Everybody {
            return (asked, Vec::new());
        }
        // Each target of a permission is evaluated once, for all nodes.
        let mut scopes: HashMap<String, HashSet<MinionId>> = HashMap::new();
        asked.into_iter().partition(|node| {
            let mut covers = |target: &str| {
                let make = || scope::members(target, all, &self.nodegroups);
                let members = scopes.entry(target.to_owned()).or_insert_with(make);
                members.contains(&node.minion)
            };
            list.publication(&calls, &[], &[], &mut covers) != Reach::Nobody
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::Tally;
    use super::*;
    use halite_wire::yaml;

    fn access(acl: &str, blacklist: &str) -> Access {
        let map = |text: &str| yaml::parse(text).unwrap().into_map().unwrap();
        Access {
            acl: map(acl),
            blacklist: Blacklist::parse(&map(blacklist)),
            nodegroups: map("{web: 'w*'}"),
            lists: HashMap::new(),
        }
    }

    fn allowed(access: &mut Access, caller: &str, fun: &str) -> Vec<String> {
        let mut nodes = Nodes::new(Vec::new(), Vec::new());
        let node = |(id, os): (&str, &str)| {
            let grains = Arc::new(halite_wire::map! {"os" => os});
            Node::new(&id.parse().unwrap(), grains, &[]).unwrap()
        };
        let found = [("w1", "Debian"), ("w2", "Arch"), ("d1", "Debian")];
        nodes.replace(found.map(node).into(), Tally::default());
        let asked = nodes.all().to_vec();
        let caller = caller.parse().unwrap();
        let (yes, no) = access.split_allowed(&caller, fun, &[], asked, &nodes);
        assert_eq!(yes.len() + no.len(), 3);
        yes.iter().map(|node| node.minion.to_string()).collect()
    }

    #[test]
    fn the_whole_caller_id_is_the_user() {
        let mut access = access(
            r"{'choria=alice.mcollective': [test.*], 'cert=ops': ['@runner'], 'uid=0': ['.*'], '*': ['.*'], '.*': ['.*'], alice: ['.*']}",
            "{}",
        );
        let all = ["d1", "w1", "w2"];
        assert_eq!(
            allowed(&mut access, "choria=alice.mcollective", "test.ping"),
            all
        );
        assert_eq!(allowed(&mut access, "uid=0", "cmd.run"), all);
        for (caller, fun) in [
            ("choria=alice.mcollective", "cmd.run"),
            ("cert=alice.mcollective", "test.ping"),
            ("choria=bob.mcollective", "test.ping"),
            ("cert=ops", "test.ping"),
            ("user=alice", "test.ping"),
            ("uid=00", "test.ping"),
        ] {
            assert!(
                allowed(&mut access, caller, fun).is_empty(),
                "{caller} {fun}"
            );
        }
    }

    #[test]
    fn permissions_for_some_minions_part_the_nodes() {
        let mut access = access(
            r"{'choria=.*\.ops': [{'G@os:Debian': [test.ping]}, {'N@web': [pkg.*]}, {'I@role:db': [cmd.run]}]}",
            "{}",
        );
        assert_eq!(
            allowed(&mut access, "choria=a.ops", "test.ping"),
            ["d1", "w1"]
        );
        assert_eq!(
            allowed(&mut access, "choria=a.ops", "pkg.list_pkgs"),
            ["w1", "w2"]
        );
        assert!(allowed(&mut access, "choria=a.ops", "cmd.run").is_empty());
    }

    #[test]
    fn the_blacklist_goes_first() {
        let acl = "{'uid=0': ['.*']}";
        let mut functions = access(acl, "{modules: [cmd.*]}");
        assert!(allowed(&mut functions, "uid=0", "cmd.run").is_empty());
        assert_eq!(allowed(&mut functions, "uid=0", "test.ping").len(), 3);
        let mut users = access(acl, "{users: ['uid=0']}");
        assert!(allowed(&mut users, "uid=0", "test.ping").is_empty());
    }
}
