//! Prints the events of a Salt event bus, like `salt-run state.event`:
//!
//!     cargo run -p halite-ipc --example listen -- /var/run/salt/master/master_event_pub.ipc [TAG-PREFIX...]

use halite_ipc::Subscriber;

mod show;

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: listen SOCKET [TAG-PREFIX...]");
        std::process::exit(2);
    };
    let bus = args.fold(Subscriber::reconnecting(path), |bus, prefix| {
        bus.with_prefix(prefix)
    });
    for event in bus {
        match event {
            Ok(event) => println!("{}\t{}", event.tag, show::json(&event)),
            Err(e) => eprintln!("{e}; continuing"),
        }
    }
}
