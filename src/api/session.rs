//! Sessions of clients: what `POST /login` gives, in the memory of this role (reference `salt-api.md` 1, 4).

use halite_crypto::random_hex;
use halite_sys::time::unix_now_f64;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a session lasts without requests; never longer than its token.
pub const LIFE: Duration = Duration::from_secs(36_000);
/// Most sessions; then the one that was silent for longest ends.
const MOST: usize = 50_000;
/// Most sessions of a user.
const MOST_OF_USER: usize = 100;
/// Most jobs of a session that are remembered.
const MOST_JOBS: usize = 500;
/// Bytes of an id, which has twice as many digits.
const ID: usize = 20;

/// A client that has logged in.
#[derive(Clone)]
pub struct Session {
    /// Its token at the master.
    pub token: String,
    /// When that expires, in Unix seconds.
    pub expire: f64,
    /// When it was made.
    pub start: f64,
    /// The user.
    pub user: String,
    /// The system that has authenticated them.
    pub eauth: String,
    /// What they may do, as the configuration has it.
    pub perms: Value,
    /// Whether they may follow all events, which show arguments of others' jobs.
    pub may_listen: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Session({}, ***)", self.user)
    }
}

impl Session {
    /// The user, for limits.
    pub fn who(&self) -> String {
        format!("user {} {}", self.eauth, self.user)
    }

    /// What its owner is told: all but its id.
    pub fn to_map(&self) -> Map {
        halite_wire::map! {
            "expire" => self.expire, "start" => self.start, "user" => self.user.as_str(),
            "eauth" => self.eauth.as_str(), "perms" => self.perms.clone(),
        }
    }

    /// Whether its token is valid no more.
    pub fn has_expired(&self) -> bool {
        // NaN counts as expired.
        let is_valid = self.expire > unix_now_f64();
        !is_valid
    }
}

/// A session, and what belongs to it alone.
struct Kept {
    session: Session,
    /// When it was used last.
    seen: Instant,
    /// The latest jobs that it has published.
    jobs: VecDeque<Jid>,
}

impl Kept {
    fn is_valid(&self) -> bool {
        !self.session.has_expired() && self.seen.elapsed() < LIFE
    }
}

/// All sessions.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Kept>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session: its id, which nobody can guess or choose, and the oldest one of this user, which ends if there are too many.
    pub fn begin(&self, session: Session) -> (String, Option<Session>) {
        let id = random_hex(ID);
        let mut all = self.all();
        let mut of_user: Vec<_> = all
            .iter()
            .filter(|(_, kept)| kept.session.who() == session.who())
            .map(|(id, kept)| (kept.seen, id.clone()))
            .collect();
        of_user.sort_unstable();
        let ended = match of_user.first().filter(|_| of_user.len() >= MOST_OF_USER) {
            Some((_, oldest)) => all.remove(oldest).map(|kept| kept.session),
            None => None,
        };
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.seen);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                all.remove(&oldest);
            }
        }
        let kept = Kept {
            session,
            seen: Instant::now(),
            jobs: VecDeque::new(),
        };
        all.insert(id.clone(), kept);
        (id, ended)
    }

    /// A session that has not expired.
    pub fn get(&self, id: &str) -> Option<Session> {
        let mut all = self.all();
        let kept = all.get_mut(id)?;
        if !kept.is_valid() {
            all.remove(id);
            return None;
        }
        kept.seen = Instant::now();
        Some(kept.session.clone())
    }

    /// A session has published these jobs.
    pub fn add_jobs(&self, id: &str, jobs: impl Iterator<Item = Jid>) {
        let mut all = self.all();
        let Some(kept) = all.get_mut(id) else { return };
        for jid in jobs {
            if kept.jobs.len() >= MOST_JOBS {
                kept.jobs.pop_front();
            }
            kept.jobs.push_back(jid);
        }
    }

    /// Whether a session has published this job, and not very many since.
    pub fn has_job(&self, id: &str, jid: &Jid) -> bool {
        let all = self.all();
        all.get(id).is_some_and(|kept| kept.jobs.contains(jid))
    }

    /// Ends a session.
    pub fn end(&self, id: &str) {
        self.all().remove(id);
    }

    /// Forgets those that have expired.
    pub fn expire(&self) {
        self.all().retain(|_, kept| kept.is_valid());
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().len()
    }
}

/// What a login reply tells: entries of `external_auth` for the user, for everybody and for their groups. Text first, in order, then
/// maps. An empty map if there are none, as in stock.
pub(super) fn permissions(external: &Map, eauth: &str, user: &str, groups: &[String]) -> Value {
    let system = external.get(eauth).and_then(Value::as_map);
    let names = [user.to_owned(), "*".to_owned()];
    let names = names
        .into_iter()
        .chain(groups.iter().map(|group| format!("{group}%")));
    let entries = names.filter_map(|name| system?.get(name.as_str())?.as_array());
    let (mut words, mut maps) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        match entry {
            Value::Str(word) if !words.contains(word) => words.push(word.clone()),
            Value::Map(_) if !maps.contains(entry) => maps.push(entry.clone()),
            _ => {}
        }
    }
    if words.is_empty() && maps.is_empty() {
        return Map::new().into();
    }
    words.sort();
    maps.sort_by_cached_key(halite_wire::pyjson::dumps);
    let words = words.into_iter().map(Value::from);
    Value::Array(words.chain(maps).collect())
}

/// Whether a user with these permissions, as the master has them, may follow all events.
pub(super) fn may_listen(list: &Value) -> bool {
    let has = |wanted: &str| list.str_list().iter().any(|one| one == wanted);
    has("@events") || (has(".*") && has("@runner") && has("@wheel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_told_in_order() {
        let text = "file: {alice: ['.*', '@wheel', '@jobs'], 'web%': [{m1: [test.ping]}, 'a.*'], '*': ['@jobs']}";
        let external = halite_wire::yaml::parse(text).unwrap().into_map().unwrap();
        let of = |user: &str, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
            halite_wire::pyjson::dumps(&permissions(&external, "file", user, &groups))
        };
        assert_eq!(of("alice", &[]), r#"[".*", "@jobs", "@wheel"]"#);
        assert_eq!(
            of("bob", &["web"]),
            r#"["@jobs", "a.*", {"m1": ["test.ping"]}]"#
        );
        let none = permissions(&external, "pam", "alice", &[]);
        assert_eq!(none, Map::new().into());
        assert!(!may_listen(&none));
        let may = |all: &[&str]| {
            may_listen(
                &all.iter()
                    .map(|w| (*w).to_owned())
                    .collect::<Vec<_>>()
                    .into(),
            )
        };
        assert!(may(&["@events"]) && may(&[".*", "@runner", "@wheel"]));
        assert!(!may(&[".*", "@jobs"]));
    }

    #[test]
    fn a_session_lasts_as_long_as_its_token() {
        let sessions = Sessions::default();
        let session = |expire: f64| Session {
            token: "t".into(),
            expire,
            start: 1.0,
            user: "fred".into(),
            eauth: "file".into(),
            perms: Value::Nil,
            may_listen: false,
        };
        let (valid, _) = sessions.begin(session(unix_now_f64() + 60.0));
        assert_eq!(valid.len(), 40);
        assert_eq!(sessions.get(&valid).unwrap().user, "fred");
        for expire in [unix_now_f64() - 1.0, f64::NAN] {
            let (expired, _) = sessions.begin(session(expire));
            assert!(sessions.get(&expired).is_none());
        }
        assert!(sessions.get("").is_none());
        assert_eq!(sessions.count(), 1);
        let jid = |n: u32| Jid::from_time(1_800_000_000, n);
        sessions.add_jobs(&valid, (0..=MOST_JOBS as u32).map(jid));
        assert!(sessions.has_job(&valid, &jid(1)) && !sessions.has_job(&valid, &jid(0)));
        assert!(!sessions.has_job("other", &jid(1)));
        sessions.end(&valid);
        assert!(sessions.get(&valid).is_none());
        let new = || sessions.begin(session(unix_now_f64() + 60.0)).1.is_some();
        assert!((0..MOST_OF_USER).all(|_| !new()) && new());
        assert_eq!(sessions.count(), MOST_OF_USER);
        assert!(!format!("{:?}", session(1.0)).contains('t'.to_string().repeat(2).as_str()));
    }
}
