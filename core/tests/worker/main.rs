//! The worker on the model backend, whose calls can be made to fail.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
#[cfg(feature = "periodic")]
mod periodic;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod support;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod versions;
