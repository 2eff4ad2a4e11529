//! Flow tracking.
