//! The set-up that the conformance suite runs on.
