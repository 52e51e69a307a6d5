//! What only PostgreSQL has: plans, isolation levels, its errors, roles, poolers. `POSTGRES_URL` tells where it runs.

mod claim;
mod connection;
mod errors;
mod fence;
mod isolation;
mod migrate;
mod notify;
mod plan;

mod proxy;
mod roles;
mod support;
mod table;
