//! Outward: the servers of the collective are minions of this master.
//!
//! Decides without IO: what is heard comes in with the time, what is to be done goes out. Keys are asked for through
//! [`Registry`].
