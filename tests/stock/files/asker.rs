//! A minion that only asks: it signs in and sends any load.

use halite::channel::channel::{Channel, Reply};
use halite::channel::interrupt::Stop;
use halite::channel::session::Session;
use halite::config::load_minion;
use halite::sys::signals::StopFlag;
use halite::transport::sockets::Context;
use halite::wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use testing::Master;
use testing::config::Home;

pub struct Asking {
    channel: Channel,
}

impl Asking {
    /// Signs in at a master that accepts everybody.
    pub fn sign_in(master: &Master, id: &str) -> Asking {
        let home = Home::create(master.place(id), "minion");
        home.write(&format!(
            "root_dir: {}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {}\npublish_port: {}\nacceptance_wait_time: 1\n",
            home.root().display(),
            master.ret_port,
            master.publish_port
        ));
        let config = Arc::new(load_minion(&home.config_dir()).expect("a configuration"));
        std::fs::create_dir_all(&config.pki_dir).expect("a directory");
        let context = Context::new();
        let session = Session::new(config, &Map::new(), &context, false).expect("keys");
        let stop = Stop::of(&StopFlag::default()).expect("a descriptor");
        let channel = Channel::new(&Arc::new(session), stop).expect("a descriptor");
        Asking { channel }
    }

    /// The answer of the master.
    pub fn ask(&mut self, load: Map) -> Value {
        match self.channel.call(&load, Duration::from_secs(60), 1) {
            Ok(Reply::Value(value)) => value,
            Ok(Reply::Refused(words)) => Value::from(format!("refused: {words}")),
            Ok(_) => Value::from("silence"),
            Err(e) => panic!("{load:?}: {e}"),
        }
    }
}
