//! Returners that write to databases: PostgreSQL, Redis and SQLite.

mod pg;
mod redis;
mod sqlite;

use halite_returners::{Database, Opener, Store};

/// Opens a store of any kind without connecting.
pub fn open(opener: &Opener) -> Box<dyn Store> {
    halite_returners::open(opener, |opener, database| match database {
        Database::Pgjsonb => Box::new(pg::Pg::new(opener, pg::Schema::Jsonb)),
        Database::Postgres => Box::new(pg::Pg::new(opener, pg::Schema::Text)),
        Database::Redis => Box::new(redis::Redis::new(opener)),
        Database::Sqlite3 => Box::new(sqlite::Sqlite::new(&opener.settings)),
    })
}
