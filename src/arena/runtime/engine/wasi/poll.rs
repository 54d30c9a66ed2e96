//! Waiting for several things at once: clocks, and files that can be read or written.

use super::environ::Clock;
use super::errno::{Errno, Fault};
use super::guest::Guest;
use super::io::is_writable;
use super::state::State;
use crate::runtime::engine::inbox::{ReaderId, WaitResult};
use std::time::{Duration, Instant};

/// Subscriptions in one call.
const MOST: u32 = 1024;
/// Price of a subscription, in simple instructions of a module.
const COST: u64 = 8;
/// Bytes of a subscription.
const SUBSCRIPTION: u32 = 48;
/// Bytes of an event.
const EVENT: u32 = 32;

const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
/// The clock's time is absolute.
const ABSOLUTE: u16 = 1;
/// The other side has closed.
const HANGUP: u16 = 1;

/// What a subscription waits for.
enum WaitCondition {
    /// A point in time; `None` is never.
    Moment(Option<Instant>),
    /// Data to read.
    Read(ReaderId),
    /// MemoryLimiter to write: on a channel, or on anything else that is open for it.
    Write { channel: bool },
    /// Invalid: cannot be waited for.
    Wrong(Errno),
}

struct Subscription {
    userdata: u64,
    tag: u8,
    wanted: WaitCondition,
}

/// An event to return.
struct Event {
    userdata: u64,
    errno: u16,
    tag: u8,
    available: u64,
    flags: u16,
}

impl Event {
    fn bytes(&self) -> [u8; EVENT as usize] {
        let mut out = [0; EVENT as usize];
        let parts: [(usize, &[u8]); 5] = [
            (0, &self.userdata.to_le_bytes()),
            (8, &self.errno.to_le_bytes()),
            (10, &[self.tag]),
            (16, &self.available.to_le_bytes()),
            (24, &self.flags.to_le_bytes()),
        ];
        for (at, part) in parts {
            if let Some(place) = out.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        out
    }
}

/// The point in time of a clock subscription.
fn clock_condition(
    guest: &Guest,
    state: &State,
    at: u32,
    now: Instant,
) -> Result<WaitCondition, Fault> {
    let field = |offset: u32| at.checked_add(offset).ok_or(Errno::Fault);
    let number = guest.u32(field(16)?)?;
    let timeout = u64::from_le_bytes(guest.array(field(24)?)?);
    let flags = u16::from_le_bytes(guest.array(field(40)?)?);
    let clock = match Clock::of(number) {
        Ok(clock @ (Clock::Real | Clock::Monotonic)) => clock,
        _ => return Ok(WaitCondition::Wrong(Errno::Invalid)),
    };
    let left = if flags & ABSOLUTE != 0 {
        timeout.saturating_sub(clock.nanos(state))
    } else {
        timeout
    };
    Ok(WaitCondition::Moment(
        now.checked_add(Duration::from_nanos(left)),
    ))
}

fn subscription(
    guest: &Guest,
    state: &State,
    at: u32,
    now: Instant,
) -> Result<Subscription, Fault> {
    let field = |offset: u32| at.checked_add(offset).ok_or(Errno::Fault);
    let userdata = u64::from_le_bytes(guest.array(at)?);
    let [tag] = guest.array(field(8)?)?;
    let file = |offset| -> Result<_, Fault> { Ok(state.files.get(guest.u32(field(offset)?)?)) };
    let wanted = match tag {
        CLOCK => clock_condition(guest, state, at, now)?,
        READ => match file(16)?.and_then(|file| file.reader()) {
            Ok(reader) => WaitCondition::Read(reader),
            Err(_) => WaitCondition::Wrong(Errno::BadFile),
        },
        WRITE => match file(16)? {
            Ok(file) if is_writable(file) => WaitCondition::Write {
                channel: matches!(file.kind, super::files::FileKind::Channel(_)),
            },
            _ => WaitCondition::Wrong(Errno::BadFile),
        },
        _ => return Err(Errno::Invalid.into()),
    };
    Ok(Subscription {
        userdata,
        tag,
        wanted,
    })
}

/// The event of a subscription, if it has occurred.
fn event(state: &State, subscription: &Subscription, now: Instant) -> Option<Event> {
    let (errno, available, flags) = match subscription.wanted {
        WaitCondition::Moment(at) if at.is_some_and(|at| at <= now) => (0, 0, 0),
        WaitCondition::Moment(_) => return None,
        WaitCondition::Read(reader) => match state.inbox.waiting(reader)? {
            0 => (0, 0, HANGUP),
            available => (0, available as u64, 0),
        },
        WaitCondition::Write { channel: true } if state.publish_at(now).is_some() => return None,
        WaitCondition::Write { .. } => (0, state.largest as u64, 0),
        WaitCondition::Wrong(errno) => (errno as u16, 0, 0),
    };
    Some(Event {
        userdata: subscription.userdata,
        errno,
        tag: subscription.tag,
        available,
        flags,
    })
}

/// `poll_oneoff`
pub(super) fn poll_oneoff(
    guest: &mut Guest,
    state: &mut State,
    subscriptions: u32,
    events: u32,
    count: u32,
    out: u32,
) -> Result<(), Fault> {
    if count == 0 || count > MOST {
        return Err(Errno::Invalid.into());
    }
    guest.charge(u64::from(count) * COST);
    // Check the results' address before waiting.
    guest.bytes_mut(events, count * EVENT)?;
    guest.put_u32(out, 0)?;
    let began = Instant::now();
    let mut wanted = Vec::with_capacity(count as usize);
    for n in 0..count {
        let at = subscriptions.checked_add(n * SUBSCRIPTION);
        let at = at.ok_or(Errno::Fault)?;
        wanted.push(subscription(guest, state, at, began)?);
    }
    loop {
        let now = Instant::now();
        let found = wanted.iter().filter_map(|s| event(state, s, now));
        let found: Vec<Event> = found.collect();
        if !found.is_empty() {
            let mut at = events;
            for event in &found {
                guest.put(at, &event.bytes())?;
                at = at.saturating_add(EVENT);
            }
            return guest.put_u32(out, u32::try_from(found.len()).unwrap_or(count));
        }
        wait(state, &wanted, now)?;
    }
}

/// Waits until an event may have occurred. If the module must end, readers are at end of file, which is an event.
fn wait(state: &mut State, wanted: &[Subscription], now: Instant) -> Result<(), Fault> {
    let mut readers = Vec::new();
    let mut until: Option<Instant> = None;
    for subscription in wanted {
        let moment = match subscription.wanted {
            WaitCondition::Moment(at) => at,
            WaitCondition::Write { channel: true } => state.publish_at(now),
            WaitCondition::Read(reader) => {
                readers.push(reader);
                None
            }
            WaitCondition::Write { channel: false } | WaitCondition::Wrong(_) => None,
        };
        until = match (until, moment) {
            (Some(until), Some(moment)) => Some(until.min(moment)),
            (until, moment) => until.or(moment),
        };
    }
    match state.wait_paused(|inbox| inbox.wait_any(&readers, until)) {
        Ok(WaitResult::Stopped) | Err(Fault::Stopped) if readers.is_empty() => Err(Fault::Stopped),
        Ok(_) | Err(Fault::Stopped) => Ok(()),
        Err(fault) => Err(fault),
    }
}
