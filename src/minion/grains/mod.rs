//! Core grains.
