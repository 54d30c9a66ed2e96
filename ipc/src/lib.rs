//! Client side of the Salt event bus.
