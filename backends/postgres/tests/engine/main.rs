//! What only PostgreSQL has: plans, isolation levels, its errors, roles, poolers. `POSTGRES_URL`
//! tells where it runs.

#[cfg(test)]
mod claim;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fence;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod look;
#[cfg(test)]
mod migrate;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod plan;

#[cfg(test)]
mod pooler;
#[cfg(test)]
#[cfg(test)]
mod roles;
#[cfg(test)]
mod support;
#[cfg(test)]
mod table;
