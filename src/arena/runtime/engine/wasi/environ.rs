//! Arguments, environment, clocks, random numbers, and exit.

use super::errno::{Errno, Fault};
use super::guest::Guest;
use super::state::State;
use halite_sys::time::since_epoch;
use wasmi::{Caller, Error};

/// Random bytes returned at once.
const MOST_RANDOM: u32 = 1 << 20;
/// Random bytes that cost about as much as one instruction of a module.
const RANDOM_PER_FUEL: u64 = 16;

/// Clocks of preview 1.
pub(super) enum Clock {
    /// Time of day, since 1970.
    Real,
    /// Since the module started.
    Monotonic,
    /// Time that the interpreter ran the module.
    Work,
}

impl Clock {
    /// The clock with this number.
    pub(super) fn of(number: u32) -> Result<Clock, Fault> {
        match number {
            0 => Ok(Clock::Real),
            1 => Ok(Clock::Monotonic),
            2 | 3 => Ok(Clock::Work),
            _ => Err(Errno::Invalid.into()),
        }
    }

    /// The time in nanoseconds.
    pub(super) fn nanos(&self, state: &State) -> u64 {
        let time = match self {
            Clock::Real => since_epoch(),
            Clock::Monotonic => state.began.elapsed(),
            Clock::Work => state.worked(),
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Writes how many strings there are, and their total size in bytes.
fn sizes(guest: &mut Guest, texts: &[Vec<u8>], count: u32, size: u32) -> Result<(), Fault> {
    let number = |n: usize| u32::try_from(n).map_err(|_| Errno::Overflow);
    guest.charge(texts.len() as u64);
    guest.put_u32(count, number(texts.len())?)?;
    guest.put_u32(size, number(texts.iter().map(Vec::len).sum())?)
}

/// Writes strings one after the other, and the address of each.
fn strings(guest: &mut Guest, texts: &[Vec<u8>], list: u32, at: u32) -> Result<(), Fault> {
    let (mut list, mut at) = (list, at);
    for text in texts {
        guest.put_u32(list, at)?;
        guest.put(at, text)?;
        let len = u32::try_from(text.len()).map_err(|_| Errno::Overflow)?;
        list = list.checked_add(4).ok_or(Errno::Fault)?;
        at = at.checked_add(len).ok_or(Errno::Fault)?;
    }
    Ok(())
}

/// `args_get`
pub(super) fn args_get(g: &mut Guest, s: &mut State, list: u32, texts: u32) -> Result<(), Fault> {
    strings(g, &s.argv, list, texts)
}

/// `args_sizes_get`
pub(super) fn args_sizes_get(
    guest: &mut Guest,
    state: &mut State,
    count: u32,
    size: u32,
) -> Result<(), Fault> {
    sizes(guest, &state.argv, count, size)
}

/// `environ_get`
pub(super) fn environ_get(
    guest: &mut Guest,
    state: &mut State,
    list: u32,
    texts: u32,
) -> Result<(), Fault> {
    strings(guest, &state.env, list, texts)
}

/// `environ_sizes_get`
pub(super) fn environ_sizes_get(
    guest: &mut Guest,
    state: &mut State,
    count: u32,
    size: u32,
) -> Result<(), Fault> {
    sizes(guest, &state.env, count, size)
}

/// `clock_res_get`: the resolution of all clocks is one nanosecond.
pub(super) fn clock_res_get(
    guest: &mut Guest,
    _: &mut State,
    clock: u32,
    out: u32,
) -> Result<(), Fault> {
    Clock::of(clock)?;
    guest.put_u64(out, 1)
}

/// `clock_time_get`
pub(super) fn clock_time_get(
    guest: &mut Guest,
    state: &mut State,
    clock: u32,
    _precision: u64,
    out: u32,
) -> Result<(), Fault> {
    let nanos = Clock::of(clock)?.nanos(state);
    guest.put_u64(out, nanos)
}

/// `random_get`: from the generator of the operating system, at most [`MOST_RANDOM`] bytes at once.
pub(super) fn random_get(g: &mut Guest, _: &mut State, at: u32, len: u32) -> Result<(), Fault> {
    if len > MOST_RANDOM {
        return Err(Errno::Invalid.into());
    }
    g.charge(u64::from(len) / RANDOM_PER_FUEL);
    halite_crypto::fill_random(g.bytes_mut(at, len)?);
    Ok(())
}

/// `proc_exit`, the only function without a result: the call ends here.
pub(super) fn proc_exit(_: Caller<'_, State>, code: u32) -> Result<(), Error> {
    Err(Error::i32_exit(code.cast_signed()))
}

/// `sched_yield`
pub(super) fn sched_yield(_: &mut Guest, _: &mut State) -> Result<(), Fault> {
    std::thread::yield_now();
    Ok(())
}
