//! Where the role hears of jobs of this master: from its event bus, and from workers that publish.

use crate::claims::{Claim, Run};
use crate::data::Bank;
use crate::events::is_for_others;
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_ipc::DROPPED;
use halite_master::job_news::news_of;
use halite_store::tokens::TokenDigest;
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
    /// Authentication codes of requests that were answered.
    Seen(Vec<u8>),
    /// Data of a minion were stored.
    Data(Bank, MinionId),
    /// A token was created.
    Token(TokenDigest),
    /// The scheduler asks whether a run may begin.
    Claim(Claim),
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

/// What a worker, a runner, the scheduler or the request server tells: after the time, the parts of a publication; after an empty part, a word and what belongs to it.
fn message(mut parts: Vec<Vec<u8>>) -> Option<News> {
    if parts.is_empty() {
        return None;
    }
    let first = parts.remove(0);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
    if let Some(at) = number(&first) {
        return Some(News::Published(at, parts));
    }
    let text = |part: &'_ [u8]| std::str::from_utf8(part).ok().map(str::to_owned);
    let (word, rest) = parts.split_first()?;
    Some(match text(word)?.as_str() {
        "drain" => News::Drain,
        "resync" => News::Resync(Some(number(rest.first()?)?).filter(|hours| *hours > 0)),
        "returns" => {
            let (group, jobs) = rest.split_first()?;
            let jobs = jobs.iter().filter_map(|jid| text(jid)?.parse().ok());
            News::Returns(number(group)?, jobs.collect())
        }
        "seen" => News::Seen(rest.first()?.clone()),
        "token" => News::Token(text(rest.first()?)?.parse().ok()?),
        "claim" => {
            let [by, at, interval, name] = rest else {
                return None;
            };
            News::Claim(Claim {
                name: text(name)?,
                run: Run {
                    at: number(at)?,
                    by: number(by)?,
                },
                interval: number(interval)?,
            })
        }
        bank => News::Data(Bank::named(bank)?, text(rest.first()?)?.parse().ok()?),
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map(drop)
}
