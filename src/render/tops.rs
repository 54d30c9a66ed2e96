//! What the top files of states and of the pillar have in common.

use halite_wire::Value;

/// By environment, the SLS names for a minion, in order.
pub type Matches = Vec<(String, Vec<String>)>;

/// What belongs to an environment in a list by environments; a new one goes to its end.
pub fn section<'a, T: Default>(list: &'a mut Vec<(String, T)>, env: &str) -> &'a mut T {
    let at = list.iter().position(|(known, _)| known == env);
    let at = at.unwrap_or_else(|| {
        list.push((env.to_owned(), T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

/// Adds SLS names of an environment, each once.
pub fn add(matches: &mut Matches, env: &str, names: impl IntoIterator<Item = String>) {
    let known = section(matches, env);
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
}

/// The kind of a target among its entries (`salt/matchers/confirm_top.py`): the last one counts.
pub fn kind(entries: &[Value]) -> Option<&Value> {
    let mut newest = entries.iter().rev();
    newest.find_map(|entry| entry.as_map()?.get("match"))
}
