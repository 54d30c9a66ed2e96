//! What gateways have recorded about their agents, at all masters: any of them can run such a gateway next.

use halite_config::THROUGH_BROKERS;
use halite_store::Stores;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::io;

/// The record of the gateway that a minion has registered at; `None` if it is no agent, or cannot be read.
pub fn read(stores: &Stores, id: &MinionId) -> Option<Map> {
    THROUGH_BROKERS.into_iter().find_map(|name| {
        let records = stores.gateways.of(name);
        let fingerprint = records.fingerprint(id).ok()??;
        let mut map = halite_wire::map! {"gateway" => name, "fingerprint" => fingerprint};
        if let Some(alias) = records.alias(id) {
            map.set("alias", alias);
        }
        Some(map)
    })
}

/// Records what another master has told. A record counts only as long as the accepted key is the one that it names.
///
/// # Errors
/// It cannot be written.
pub fn write(stores: &Stores, id: &MinionId, told: &Map) -> io::Result<()> {
    let gateway = told.str("gateway").unwrap_or_default();
    let Some(name) = THROUGH_BROKERS.into_iter().find(|name| *name == gateway) else {
        return Ok(());
    };
    let Some(fingerprint) = told.str("fingerprint") else {
        return Ok(());
    };
    let records = stores.gateways.of(name);
    records.prepare()?;
    if let Some(alias) = told
        .str("alias")
        .filter(|alias| records.alias(id).as_deref() != Some(alias))
    {
        records.put_alias(id, alias)?;
    }
    match records.fingerprint(id)?.as_deref() == Some(fingerprint) {
        true => Ok(()),
        false => records.put(id, fingerprint),
    }
}

/// Removes the records of a minion whose key is gone, unless it has one again.
///
/// # Errors
/// The key cannot be read, or a record not be removed.
pub fn forget(stores: &Stores, id: &MinionId) -> io::Result<()> {
    for name in THROUGH_BROKERS {
        let records = stores.gateways.of(name);
        if !records.knows(id) {
            continue;
        }
        // Whoever registers an agent holds the lock.
        let _lock = stores.keys.lock(id)?;
        if stores.keys.state(id)?.is_none() {
            records.remove(id)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_store::keys::KeyState;
    use halite_store::memory;

    #[test]
    fn records_of_agents_are_told_and_forgotten() {
        let [one, two] = [memory::stores(), memory::stores()];
        let id: MinionId = "a".parse().unwrap();
        assert_eq!(read(&one, &id), None);
        one.gateways.of("sysinspect").put(&id, "f").unwrap();
        assert_eq!(read(&one, &id), None);
        one.gateways.of("arena").put(&id, "f").unwrap();
        one.gateways.of("arena").put_alias(&id, "uuid").unwrap();
        let told = read(&one, &id).unwrap();
        write(&two, &id, &told).unwrap();
        assert_eq!(read(&two, &id), Some(told));
        for wrong in ["sysinspect", "../arena"] {
            let told = halite_wire::map! {"gateway" => wrong, "fingerprint" => "f"};
            write(&two, &id, &told).unwrap();
        }
        assert_eq!(two.gateways.all().len(), 1);
        two.keys.put(KeyState::Pending, &id, "key").unwrap();
        forget(&two, &id).unwrap();
        assert!(read(&two, &id).is_some());
        two.keys.delete(KeyState::Pending, &id).unwrap();
        forget(&two, &id).unwrap();
        assert_eq!(read(&two, &id), None);
    }
}
