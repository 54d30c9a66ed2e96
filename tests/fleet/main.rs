//! Many minions, and what is killed, cut off or upgraded under load.

mod faults;
mod minion;
mod storm;
mod swarm;
mod upgrade;
