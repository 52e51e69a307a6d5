//! Storing jobs, and finding those that a dedup key already names.

use std::collections::BTreeMap;

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use queue_table_core::{
    ColumnValue, DedupScope, ENQUEUE_MAX, Enqueued, JobId, NewJob, Result, Table, check_count,
};

use crate::error::{broken, failed};
use crate::lifecycle::Protocol;
use crate::sql::Texts;
use crate::statement::{Bind, Statement};

/// Most bytes of payload in one statement: a message to the server holds at most 1 GiB.
const CHUNK_BYTES_MAX: usize = 32 << 20;

/// Jobs that were checked against the table, with their business columns in its order.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    jobs: &'a [NewJob],
    columns: Vec<Vec<ColumnValue>>,
}

impl<'a> Batch<'a> {
    /// Checks the jobs before any SQL.
    pub(crate) fn of(table: &Table, jobs: &'a [NewJob]) -> Result<Self> {
        check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
        let columns = jobs.iter().map(|job| table.arrange(job.columns()));
        Ok(Self {
            jobs,
            columns: columns.collect::<Result<_, _>>()?,
        })
    }
}

/// What becomes of one job of a batch.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is stored, under this id where a dedup key has already been given one.
    Store(Option<i64>),
    /// Its key names this job.
    Exists(i64),
}

pub(crate) fn enqueue(
    tx: &mut PgConnection,
    protocol: &Protocol,
    batch: &Batch<'_>,
) -> Result<Vec<Enqueued>> {
    if let [job] = batch.jobs
        && job.dedup().is_none()
    {
        return store_one(tx, protocol, job, &batch.columns[0]);
    }
    let fates = fates(tx, &protocol.texts, batch.jobs)?;
    let mut stored = Vec::with_capacity(batch.jobs.len());
    for chunk in chunks(batch.jobs, &fates) {
        stored.extend(store(tx, protocol, batch, &fates, &chunk)?);
    }
    let mut stored = stored.into_iter();
    let answer = |fate: &Fate| match fate {
        Fate::Exists(id) => Ok(Enqueued::Existing(JobId::new(*id))),
        Fate::Store(_) => stored
            .next()
            .map(|id| Enqueued::Inserted(JobId::new(id)))
            .ok_or_else(|| broken("enqueue", "the server returned too few ids")),
    };
    fates.iter().map(answer).collect()
}

fn store_one(
    tx: &mut PgConnection,
    protocol: &Protocol,
    job: &NewJob,
    columns: &[ColumnValue],
) -> Result<Vec<Enqueued>> {
    let mut binds = vec![
        Bind::Text(job.queue().as_str()),
        Bind::Text(job.kind().as_str()),
        Bind::Text(job.payload().as_str()),
        Bind::Integer(i32::from(job.payload_version())),
        Bind::Integer(job.priority()),
        Bind::BigInt(job.delay().as_micros()),
        Bind::Integer(max_attempts(job)),
    ];
    let own = protocol.table.columns().iter().zip(columns);
    binds.extend(own.map(|(column, value)| Bind::column(column.column_type, value)));
    let id: i64 = Statement::<BigInt>::new(&protocol.texts.enqueue_one, binds)
        .get_result(tx)
        .map_err(failed("enqueue"))?;
    Ok(vec![Enqueued::Inserted(JobId::new(id))])
}

/// Stores some jobs of the batch, by their places, and returns their ids in that order.
fn store(
    tx: &mut PgConnection,
    protocol: &Protocol,
    batch: &Batch<'_>,
    fates: &[Fate],
    places: &[usize],
) -> Result<Vec<i64>> {
    let jobs = || places.iter().map(|place| &batch.jobs[*place]);
    let given = places.iter().map(|place| match fates[*place] {
        Fate::Store(id) => id,
        Fate::Exists(id) => Some(id),
    });
    let mut binds = vec![
        Bind::BigIntsOrNulls(given.collect()),
        Bind::Texts(jobs().map(|job| job.queue().as_str()).collect()),
        Bind::Texts(jobs().map(|job| job.kind().as_str()).collect()),
        Bind::Texts(jobs().map(|job| job.payload().as_str()).collect()),
        Bind::Integers(jobs().map(|job| i32::from(job.payload_version())).collect()),
        Bind::Integers(jobs().map(NewJob::priority).collect()),
        Bind::BigInts(jobs().map(|job| job.delay().as_micros()).collect()),
        Bind::Integers(jobs().map(max_attempts).collect()),
    ];
    for (at, column) in protocol.table.columns().iter().enumerate() {
        let values = places.iter().map(|place| &batch.columns[*place][at]);
        binds.push(Bind::columns(column.column_type, values));
    }
    Statement::<BigInt>::new(&protocol.texts.enqueue, binds)
        .load(tx)
        .map_err(failed("enqueue"))
}

/// A budget is at most 1,000,000.
fn max_attempts(job: &NewJob) -> i32 {
    i32::try_from(job.max_attempts().get()).unwrap_or(i32::MAX)
}

/// The places of the jobs to be stored, in statements of bounded size.
fn chunks(jobs: &[NewJob], fates: &[Fate]) -> Vec<Vec<usize>> {
    let mut chunks = vec![];
    let (mut chunk, mut bytes) = (vec![], 0);
    for (place, fate) in fates.iter().enumerate() {
        if matches!(fate, Fate::Exists(_)) {
            continue;
        }
        bytes += jobs[place].payload().as_str().len();
        if bytes > CHUNK_BYTES_MAX && !chunk.is_empty() {
            chunks.push(std::mem::take(&mut chunk));
            bytes = jobs[place].payload().as_str().len();
        }
        chunk.push(place);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// A dedup key within its queue. Sorted by bytes, as the table's collation does.
type Key<'a> = (&'a str, &'a str);

/// Decides for each job whether it is stored, taking the locks of all dedup keys in one order.
fn fates(tx: &mut PgConnection, texts: &Texts, jobs: &[NewJob]) -> Result<Vec<Fate>> {
    let mut scopes: BTreeMap<Key<'_>, DedupScope> = BTreeMap::new();
    for job in jobs {
        if let Some((key, scope)) = key_of(job) {
            scopes.entry(key).or_insert(scope);
        }
    }
    if scopes.is_empty() {
        return Ok(vec![Fate::Store(None); jobs.len()]);
    }
    let mut named = name_keys(tx, texts, &scopes)?;
    let mut fates = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some((key, _)) = key_of(job) else {
            fates.push(Fate::Store(None));
            continue;
        };
        let missing = || broken("enqueue", "the server returned too few dedup keys");
        let fate = named.get_mut(&key).ok_or_else(missing)?;
        fates.push(*fate);
        // A second job of the batch with the same key finds the first.
        if let Fate::Store(Some(id)) = *fate {
            *fate = Fate::Exists(id);
        }
    }
    Ok(fates)
}

fn key_of(job: &NewJob) -> Option<(Key<'_>, DedupScope)> {
    let dedup = job.dedup()?;
    Some(((job.queue().as_str(), dedup.key.as_str()), dedup.scope))
}

/// Locks the keys and tells for each which job it names: one that exists, or one that is to be
/// stored under a new id.
fn name_keys<'a>(
    tx: &mut PgConnection,
    texts: &Texts,
    scopes: &BTreeMap<Key<'a>, DedupScope>,
) -> Result<BTreeMap<Key<'a>, Fate>> {
    let keys: Vec<_> = scopes.keys().copied().collect();
    let mut binds = key_binds(&keys);
    binds.push(Bind::Texts(
        scopes.values().map(|scope| scope.as_str()).collect(),
    ));
    let ids: Vec<(i64, i64)> = Statement::<(BigInt, BigInt)>::new(&texts.dedup_lock, binds)
        .load(tx)
        .map_err(failed("enqueue"))?;
    let found = keys.iter().copied().zip(ids);
    let (new, held): (Vec<_>, Vec<_>) = found.partition(|(_, (offered, named))| offered == named);
    let mut fates: BTreeMap<_, _> = new
        .into_iter()
        .map(|(key, (offered, _))| (key, Fate::Store(Some(offered))))
        .collect();
    if !held.is_empty() {
        let free = take_over(tx, texts, scopes, &held)?;
        for (at, (key, (offered, named))) in held.iter().enumerate() {
            let fate = match free.contains(&at) {
                true => Fate::Store(Some(*offered)),
                false => Fate::Exists(*named),
            };
            fates.insert(*key, fate);
        }
    }
    Ok(fates)
}

/// Takes over those of the locked keys that are free, and returns their places.
fn take_over(
    tx: &mut PgConnection,
    texts: &Texts,
    scopes: &BTreeMap<Key<'_>, DedupScope>,
    held: &[(Key<'_>, (i64, i64))],
) -> Result<Vec<usize>> {
    let keys: Vec<_> = held.iter().map(|(key, _)| *key).collect();
    let places: Vec<i64> = Statement::<BigInt>::new(&texts.dedup_free, key_binds(&keys))
        .load(tx)
        .map_err(failed("enqueue"))?;
    let place = |place: i64| usize::try_from(place - 1).unwrap_or(usize::MAX);
    let free: Vec<_> = places.into_iter().map(place).collect();
    let chosen = || free.iter().filter_map(|at| held.get(*at));
    let taken: Vec<_> = chosen().map(|(key, _)| *key).collect();
    if !taken.is_empty() {
        let mut binds = key_binds(&taken);
        let given = |key: &Key<'_>| scopes.get(key).map_or("", |scope| scope.as_str());
        binds.push(Bind::BigInts(
            chosen().map(|(_, (offered, _))| *offered).collect(),
        ));
        binds.push(Bind::Texts(taken.iter().map(given).collect()));
        Statement::<()>::new(&texts.dedup_take, binds)
            .execute(tx)
            .map_err(failed("enqueue"))?;
    }
    Ok(free)
}

fn key_binds<'a>(keys: &[Key<'a>]) -> Vec<Bind<'a>> {
    vec![
        Bind::Texts(keys.iter().map(|(queue, _)| *queue).collect()),
        Bind::Texts(keys.iter().map(|(_, key)| *key).collect()),
    ]
}
