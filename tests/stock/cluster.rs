//! Stock minions behind an address that moves from one master of a cluster to another.

use halite::store::keys::KeyState;
use halite::wire::msgpack;
use halite_ipc::Subscriber;
use serde_json::json;
use std::time::Duration;
use testing::cluster::Cluster;
use testing::{Minion, Stock, wait_until};

#[test]
fn stock_minions_move_without_a_sign_in() {
    const SERIES: [&str; 2] = ["3006", "3008"];
    let Some(stock): Option<Vec<Stock>> = SERIES.iter().map(|series| Stock::find(series)).collect()
    else {
        return;
    };
    let Some(mut cluster) = Cluster::start("auto_accept: true") else {
        return;
    };
    let ids = ["m3006", "m3008"];
    let (relays, mut minions) = cluster.behind_relays(|master| {
        let each = stock.iter().zip(ids);
        each.map(|(stock, id)| Minion::stock(stock, master, id, ""))
            .collect::<Vec<_>>()
    });
    for id in ids {
        cluster.wait_state(id, Some(KeyState::Accepted));
    }
    let answer = |n: usize, ids: &[&str]| {
        let list = ids.join(",");
        let said = cluster.masters[n]
            .halite_cli()
            .ask(&["-L", &list, "test.ping", "-t", "2"]);
        said.is_ok_and(|said| ids.iter().all(|id| said.get(*id) == Some(&json!(true))))
    };
    wait_until("all answer the first", || answer(0, &ids));
    // Nothing is connected to the second: its jobs reach them, and its job cache has what they return.
    wait_until("all answer the second, too", || answer(1, &ids));
    let stock_cli = cluster.masters[1].stock_cli(&stock[1]);
    wait_until("stock's client gets it as well", || {
        let said = stock_cli.ask(&["m300*", "test.ping", "-t", "5"]);
        said.is_ok_and(|said| ids.iter().all(|id| said.get(*id) == Some(&json!(true))))
    });
    let mut bus = Subscriber::connect(cluster.masters[1].bus()).unwrap();
    relays.move_to(&cluster.masters[1]);
    wait_until("all answer the second", || answer(1, &ids));
    minions.iter_mut().for_each(Minion::must_live);
    // A return came, and nobody has signed in at this master.
    let mut returns = 0;
    while let Ok(Some(event)) = bus.next(Some(Duration::from_millis(500))) {
        assert_ne!(event.tag, "salt/auth");
        // Those that the other master has told of do not count.
        let data = msgpack::decode(&event.payload).unwrap();
        let is_own = data
            .as_map()
            .is_some_and(|data| !data.contains("__peer_id"));
        returns += usize::from(is_own && event.tag.contains("/ret/m300"));
    }
    assert!(returns >= ids.len());
}
