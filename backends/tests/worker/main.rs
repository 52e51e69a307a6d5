//! The worker on every engine that this build has and that is there.

#[cfg(test)]
mod engines;
#[cfg(test)]
mod long_handlers;
#[cfg(test)]
mod metrics;
