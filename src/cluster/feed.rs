//! Where the role hears of jobs of this master: from its event bus, and from workers that publish.

use crate::data::Bank;
use crate::events::is_for_others;
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_ipc::DROPPED;
use halite_master::job_news::news_of;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_transport::poll::Poller;
use halite_transport::sockets::{Context, Pull};
use halite_wire::ids::{Jid, MinionId};
use std::time::Duration;

/// Longest wait for a job, so that a stop takes effect.
const NAP: Duration = Duration::from_millis(250);

/// What is new about jobs of this master.
#[derive(Debug)]
pub enum News {
    /// Something of this job is in the log, or will soon be.
    Job {
        /// Which.
        jid: Jid,
        /// Whether it may not be in the log yet.
        is_late: bool,
    },
    /// A job was published: when, in Unix seconds, and what `publish_pull.ipc` got.
    Published(u64, Vec<Vec<u8>>),
    /// Answers to returns of these jobs wait until the servers have them; the number of their group.
    Returns(u64, Vec<Jid>),
    /// Data of a minion were stored.
    Data(Bank, MinionId),
    /// An event that the other masters are to hear of: tag and data.
    Event(String, Vec<u8>),
    /// Events may have been missed.
    Missed,
    /// The operator asks to compare jobs: of that many hours, or all.
    Resync(Option<u64>),
    /// The operator asks to send minions away.
    Drain,
}

/// Starts the threads that hear, and pass it to `tell`; they end with the process. Binds `cluster.ipc`.
///
/// # Errors
/// The socket cannot be bound, or a thread not be started.
pub fn start(
    config: &MasterConfig,
    stop: &StopFlag,
    tell: impl Fn(News) -> Result<(), ()> + Clone + Send + 'static,
) -> Result<(), ExitError> {
    let pull = Pull::new(&Context::new())?;
    pull.bind_ipc(&config.cluster_pull())?;
    let (publish, ending) = (tell.clone(), stop.clone());
    let published = move || {
        while !ending.is_set() {
            let mut poller = Poller::new();
            poller.add(pull.source());
            if let Err(e) = poller.wait(Some(NAP)) {
                log::error!("cluster.ipc cannot be read: {e}");
                return;
            }
            while let Ok(Some(parts)) = pull.receive() {
                if message(parts).is_some_and(|news| publish(news).is_err()) {
                    return;
                }
            }
        }
    };
    let (ending, bus) = (stop.clone(), config.event_pub());
    let heard = move || {
        // The role has ended if nobody takes it.
        let tell = |news: News| {
            let _ = tell(news);
        };
        listen(bus, &ending, &mut || tell(News::Missed), &mut |event| {
            if event.tag == DROPPED {
                tell(News::Missed);
                return;
            }
            if let Some((jid, is_late)) = news_of(&event.tag) {
                tell(News::Job { jid, is_late });
            }
            if is_for_others(&event.tag, &event.payload) {
                tell(News::Event(event.tag, event.payload));
            }
        });
    };
    spawn("published", published)?;
    spawn("bus", heard)?;
    Ok(())
}

/// What a worker or a runner tells. After an empty part, bank and id of data, or `returns`, the number of a group, and jobs, or what an operator asks; after the time,
/// the parts of a publication.
fn message(mut parts: Vec<Vec<u8>>) -> Option<News> {
    if parts.is_empty() {
        return None;
    }
    let first = parts.remove(0);
    if let Ok(at) = <[u8; 8]>::try_from(first.as_slice()) {
        return Some(News::Published(u64::from_be_bytes(at), parts));
    }
    if parts.first().is_some_and(|part| part == b"returns") {
        let number = u64::from_be_bytes(parts.get(1)?.as_slice().try_into().ok()?);
        let jid = |part: &Vec<u8>| std::str::from_utf8(part).ok()?.parse::<Jid>().ok();
        return Some(News::Returns(
            number,
            parts.iter().skip(2).filter_map(jid).collect(),
        ));
    }
    match parts.first().map(Vec::as_slice) {
        Some(b"drain") => return Some(News::Drain),
        Some(b"resync") => {
            let hours = u64::from_be_bytes(parts.get(1)?.as_slice().try_into().ok()?);
            return Some(News::Resync(Some(hours).filter(|hours| *hours > 0)));
        }
        _ => {}
    }
    let text = |n: usize| std::str::from_utf8(parts.get(n)?).ok();
    Some(News::Data(Bank::named(text(0)?)?, text(1)?.parse().ok()?))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map(drop)
}
