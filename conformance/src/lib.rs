//! The conformance suite of `queue-table`.

mod fixture;

pub use fixture::{
    Capabilities, Change, Deviation, Fixture, Fresh, Held, PortError, Probe, Profile, Row, Setup,
    Written,
};
