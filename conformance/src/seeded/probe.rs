//! The probe of a seeded fixture: everything by the probe that it wraps.

use std::net::SocketAddr;
use std::time::Duration;

use queue_table_core::{Administration, JobId, Timestamp, TransactionalBackend};

use super::{Broken, Seed};
use crate::fixture::{Change, Held, PortError, Probe, Row, Server, Written};

/// Observes and disturbs the tables of a broken backend.
#[derive(Debug)]
pub struct SeededProbe<P> {
    probe: P,
    seed: Seed,
}

impl<P> SeededProbe<P> {
    pub(super) const fn with(probe: P, seed: Seed) -> Self {
        Self { probe, seed }
    }
}

impl<B, P> Probe<Broken<B>> for SeededProbe<P>
where
    B: Administration + TransactionalBackend,
    P: Probe<B>,
{
    fn session(&self) -> Result<Broken<B>, PortError> {
        Ok(Broken::with(self.probe.session()?, self.seed))
    }

    fn address(&self) -> Result<String, PortError> {
        Ok(format!("{} {}", self.seed, self.probe.address()?))
    }

    fn server(&self) -> Result<Server, PortError> {
        self.probe.server()
    }

    fn session_through(&self, address: SocketAddr) -> Result<Broken<B>, PortError> {
        let session = self.probe.session_through(address)?;
        Ok(Broken::with(session, self.seed))
    }

    fn settle(&self) -> Result<(), PortError> {
        self.probe.settle()
    }

    fn reads_in(&self, tx: &mut B::Tx<'_>) -> Result<u64, PortError> {
        self.probe.reads_in(tx)
    }

    fn drop_index(&self, index: &str) -> Result<(), PortError> {
        self.probe.drop_index(index)
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        self.probe.now()
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        self.probe.row(job)
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        self.probe.ids()
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        self.probe.count(sister)
    }

    fn skip_to(&self, id: JobId) -> Result<(), PortError> {
        self.probe.skip_to(id)
    }

    fn set_version(&self, version: u32) -> Result<(), PortError> {
        self.probe.set_version(version)
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        self.probe.rewind(job, by)
    }

    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        self.probe.write(job, changes)
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        self.probe.delete(job)
    }

    fn hold(&self, job: JobId, hold: Duration) -> Result<Held, PortError> {
        self.probe.hold(job, hold)
    }

    fn effect_in(&self, tx: &mut B::Tx<'_>, text: &str) -> Result<(), PortError> {
        self.probe.effect_in(tx, text)
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        self.probe.effects()
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        self.probe.reference(job)
    }
}
