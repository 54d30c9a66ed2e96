//! What was added to the job log since a reader's last call. Jobs are copied to databases from here and
//! not from events, which may be trimmed or lost.

use super::disk::names;
use super::joblog::{JobLog, assemble, intact_end};
use crate::jobs::JobUpdate;
use halite_wire::ids::Jid;
use std::io;
use std::time::SystemTime;

/// Most seconds between creating a jid and storing its job; far more than needed.
const MAX_STORE_DELAY: i64 = 60;

impl JobLog {
    /// [`JobStore::changed_since`](crate::jobs::JobStore::changed_since).
    pub(super) fn changed(&self, since: SystemTime) -> io::Result<Vec<Jid>> {
        let seconds = since.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = seconds.map_or(0, |d| d.as_secs() as i64);
        let made = Jid::from_time(seconds.saturating_sub(MAX_STORE_DELAY), 0);
        let mut out = Vec::new();
        for slice in names(&self.dir)? {
            for jid in self.jids(&slice)? {
                let changed = match std::fs::symlink_metadata(self.path(&jid)) {
                    Ok(meta) => meta.modified()? >= since,
                    // In a shared file, so written when its jid was created; or removed since it was listed.
                    Err(_) => jid >= made,
                };
                if changed {
                    out.push(jid);
                }
            }
        }
        Ok(out)
    }

    /// [`JobStore::started_since`](crate::jobs::JobStore::started_since).
    pub(super) fn started(&self, since: i64) -> io::Result<Vec<Jid>> {
        let first = Jid::from_time(since.max(0), 0);
        let slice = Self::slice_name(&first);
        let mut out = Vec::new();
        for name in names(&self.dir)?.iter().filter(|n| n.as_str() >= slice) {
            out.extend(self.jids(name)?);
        }
        out.retain(|jid| *jid >= first);
        Ok(out)
    }

    /// [`JobStore::updates`](crate::jobs::JobStore::updates); the cursor is the number of bytes read.
    pub(super) fn read_from(&self, jid: &Jid, from: u64) -> io::Result<Option<JobUpdate>> {
        let Some(bytes) = self.read(jid, from)? else {
            return Ok(None);
        };
        let marker = self.marker();
        let used = intact_end(&bytes, marker);
        let job = assemble(&bytes[..used], marker);
        let is_started = !job.load.is_empty();
        let load = match (job.load.is_empty(), job.returns.first()) {
            (false, _) => Some(job.load),
            (true, Some(first)) if from == 0 => Some(first.load.clone()),
            _ => None,
        };
        let first = job.returns.first().map(|first| &first.load);
        Ok(Some(JobUpdate {
            jid: jid.clone(),
            is_started_by_minion: is_started && first == load.as_ref(),
            load,
            returns: job.returns,
            end: from + used as u64,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobStore, Returned};
    use halite_wire::Map;
    use std::time::Duration;

    #[test]
    fn updates_are_returned_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = JobLog::new(dir.path(), 3600, None);
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 5);
        assert!(log.updates(&jid, 0).unwrap().is_none());
        let ret = |id: &str| halite_wire::map! {"id" => id, "return" => true};
        let save = |id: &str| {
            log.save_return(&jid, &id.parse().unwrap(), &ret(id))
                .unwrap()
        };
        log.save_load(&jid, &halite_wire::map! {"fun" => "test.ping"}, &[], &[])
            .unwrap();
        save("a");
        let first = log.updates(&jid, 0).unwrap().unwrap();
        assert_eq!(first.load.unwrap().str("fun"), Some("test.ping"));
        assert_eq!(first.returns.len(), 1);
        let none = log.updates(&jid, first.end).unwrap().unwrap();
        assert!(none.load.is_none() && none.returns.is_empty() && none.end == first.end);
        save("b");
        let more = log.updates(&jid, first.end).unwrap().unwrap();
        assert_eq!((more.returns.len(), more.returns[0].id.as_str()), (1, "b"));
    }

    #[test]
    fn an_incomplete_record_is_left_for_later() {
        let dir = tempfile::tempdir().unwrap();
        let log = JobLog::new(dir.path(), 3600, None);
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 5);
        log.save_load(&jid, &halite_wire::map! {"fun" => "test.ping"}, &[], &[])
            .unwrap();
        let whole = std::fs::read(log.path(&jid)).unwrap();
        std::fs::write(log.path(&jid), &whole[..whole.len() - 3]).unwrap();
        assert_eq!(log.updates(&jid, 0).unwrap().unwrap().end, 0);
        std::fs::write(log.path(&jid), &whole).unwrap();
        assert_eq!(
            log.updates(&jid, 0).unwrap().unwrap().end,
            whole.len() as u64
        );
    }

    #[test]
    fn the_return_of_a_job_started_by_a_minion_is_its_load() {
        let dir = tempfile::tempdir().unwrap();
        let log = JobLog::new(dir.path(), 3600, None);
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 5);
        let ret = halite_wire::map! {"id" => "a", "return" => true, "fun" => "state.apply"};
        log.save_return(&jid, &"a".parse().unwrap(), &ret).unwrap();
        let update = log.updates(&jid, 0).unwrap().unwrap();
        assert_eq!(update.load.unwrap().str("fun"), Some("state.apply"));
        assert!(!update.is_started_by_minion);
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 6);
        let (id, load, starts_job) = ("a".parse().unwrap(), &ret, true);
        let (jid, id) = (&jid, &id);
        let stored = log.save_returns(&[Returned {
            jid,
            id,
            load,
            starts_job,
        }]);
        assert!(stored.iter().all(Result::is_ok));
        assert!(log.updates(jid, 0).unwrap().unwrap().is_started_by_minion);
    }

    #[test]
    fn changed_jobs_are_found_by_time() {
        let dir = tempfile::tempdir().unwrap();
        let log = JobLog::new(dir.path(), 3600, None);
        let jid = Jid::from_time(jiff::Timestamp::now().as_second(), 5);
        log.save_load(&jid, &Map::new(), &[], &[]).unwrap();
        let now = SystemTime::now();
        let past = now - Duration::from_secs(60);
        assert_eq!(log.changed_since(past).unwrap(), vec![jid.clone()]);
        let seconds = jiff::Timestamp::now().as_second();
        assert_eq!(log.started_since(seconds - 60).unwrap(), [jid]);
        assert!(log.started_since(seconds + 60).unwrap().is_empty());
        let future = now + Duration::from_secs(60);
        assert!(log.changed_since(future).unwrap().is_empty());
    }
}
