//! Names are compared exactly.

use queue_table_core::{
    BatchSize, ClaimRequest, DedupScope, EffectName, Enqueued, Kind, ListRequest, NewJob, QueueName,
};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            queue_names_are_compared_exactly,
            "A claim takes the jobs of its own queue, not those of a name that looks or sorts alike",
            [C7, C25],
        ),
        scenario!(
            kinds_are_compared_exactly,
            "A worker that accepts one kind is not given a kind that looks or sorts alike",
            [C7, C25],
        ),
        scenario!(
            dedup_keys_are_compared_exactly,
            "Dedup keys that look or sort alike name different jobs",
            [C5, C25],
        ),
        scenario!(
            worker_ids_are_compared_exactly,
            "A receipt whose worker looks or sorts like the claim's is refused",
            [C13, C25],
        ),
        scenario!(
            effect_names_are_compared_exactly,
            "Effects whose names look or sort alike are different effects",
            [C17, C25],
        ),
        scenario!(
            a_pause_stops_exactly_the_queue_named,
            "A paused queue does not stop one whose name looks or sorts alike",
            [C7, C25],
        ),
        scenario!(
            lists_and_stats_compare_names_exactly,
            "Lists and stats tell queues and kinds apart that look or sort alike",
            [C25],
        ),
        scenario!(
            names_of_the_largest_size_work,
            "Names of the largest size, in one byte or four bytes a character, are stored whole and found",
            [C3, C25],
        ),
        scenario!(
            dedup_keys_of_the_largest_size_work,
            "Dedup keys of the largest size are found again, and told apart by their last character",
            [C3, C5, C25],
        ),
    ]
}

/// Names that some collation takes for another one of them. The four-byte ones are sushi and beer.
const ALIKE: [&str; 14] = [
    "mail",
    "Mail",
    "MAIL",
    "mäil",
    "ma\u{308}il",
    "mail\u{200b}",
    "ma il",
    "ma  il",
    "\u{1f363}",
    "\u{1f37a}",
    "ß",
    "ss",
    "ﬁ",
    "fi",
];

// Report 50: a worker of one queue takes another queue's jobs,
// https://github.com/HubSpot/Blazar-Archive/pull/351. Engines that pad with blanks cannot tell
// `mail` from `mail `: names with blanks at an end are refused everywhere.
fn queue_names_are_compared_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for padded in ["mail ", " mail", "mail\u{a0}", "mail\n"] {
        expect(
            QueueName::new(padded).is_err(),
            format_args!("{padded:?} was taken"),
        )?;
    }
    let jobs = ALIKE.map(job_for).into_iter().collect::<Check<Vec<_>>>()?;
    let stored = arena.backend.enqueue(&jobs)?;

    for (job, stored) in jobs.iter().zip(stored) {
        let worker = WorkerId::new("worker-a")?;
        let limit = BatchSize::new(100)?;
        let request = ClaimRequest::new(job.queue().clone(), worker).with_limit(limit);
        let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;

        expect_that("claimed job", claimed.job_id(), stored.job_id())?;
        expect_that("its queue", &claimed.queue, job.queue())?;
        expect_that(
            "stored queue",
            &*arena.row(stored)?.queue,
            job.queue().as_str(),
        )?;
    }
    Ok(())
}

// Report 50, the same for kinds.
fn kinds_are_compared_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for name in ALIKE {
        let payload = arena.job()?.payload().clone();
        arena.store(&NewJob::new(&arena.queue, Kind::new(name)?, payload))?;
    }

    for name in ALIKE {
        let kind = Kind::new(name)?;
        let request = arena.request("worker-a")?;
        let request = request.with_limit(BatchSize::new(100)?);
        let request = request.accepting([(kind.clone(), 1..=1)].into());
        let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;

        expect_that("its kind", &claimed.kind, &kind)?;
        expect_that("stored kind", &*arena.row(&claimed)?.kind, name)?;
    }
    Ok(())
}

// Report 50, the same for unique keys.
fn dedup_keys_are_compared_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let keyed = |key: &str| Ok(arena.job()?.with_dedup(key, DedupScope::WhileRowExists)?);
    let jobs = ALIKE.map(keyed).into_iter().collect::<Check<Vec<_>>>()?;

    let stored = arena.backend.enqueue(&jobs)?;
    let again = arena.backend.enqueue(&jobs)?;

    expect(
        stored.iter().all(|stored| stored.is_new()),
        format_args!("keys were taken for each other: {stored:?}"),
    )?;
    let ids =
        |stored: &[Enqueued]| -> Vec<_> { stored.iter().map(|stored| stored.job_id()).collect() };
    expect_that("ids", ids(&again), ids(&stored))?;
    expect_that("rows", arena.probe.ids()?.len(), ALIKE.len())
}

fn worker_ids_are_compared_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for name in ALIKE {
        let claimed = arena.enqueue_and_claim(name)?;
        expect_that(
            "stored worker",
            arena.row(&claimed)?.worker_id.as_deref(),
            Some(name),
        )?;
        let before = arena.snapshot()?;

        for other in ALIKE.into_iter().filter(|other| *other != name) {
            let worker = WorkerId::new(other)?;
            let forged = Receipt::new(claimed.job_id(), claimed.attempt(), worker);
            expect_lost(arena.backend.ack_one(&forged), LostReason::Superseded)?;
        }

        arena.expect_unchanged(&before)?;
        arena.backend.ack_one(&claimed.receipt)?;
    }
    Ok(())
}

fn effect_names_are_compared_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let record_all = || {
        arena.backend.transaction(|tx| {
            let first_time = ALIKE.into_iter().map(|name| {
                let name = EffectName::new(name)?;
                let backend = arena.backend;
                Ok(backend.record_effect_in(tx, &claimed.receipt, &name)?)
            });
            first_time.collect::<Check<Vec<_>>>()
        })
    };

    expect_that("first time", record_all()?, [true; ALIKE.len()])?;
    expect_that("second time", record_all()?, [false; ALIKE.len()])?;
    expect_that(
        "stored effects",
        arena.probe.count("effect")?,
        ALIKE.len() as u64,
    )
}

fn a_pause_stops_exactly_the_queue_named<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for name in ALIKE
        .into_iter()
        .filter(|name| *name != arena.queue.as_str())
    {
        arena.backend.pause(&QueueName::new(name)?)?;
    }
    expect_that(
        "pauses",
        arena.probe.count("queue")?,
        ALIKE.len() as u64 - 1,
    )?;
    arena.enqueue_and_claim("worker-a")?;

    arena.backend.pause(&arena.queue)?;

    arena.enqueue_one()?;
    expect_eq(arena.claim("worker-a", 1)?, [])
}

fn lists_and_stats_compare_names_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for name in ALIKE {
        let payload = arena.job()?.payload().clone();
        arena.store(&NewJob::new(
            &QueueName::new(name)?,
            Kind::new(name)?,
            payload,
        ))?;
    }
    let first = ListRequest::first(BatchSize::MAX);

    for (name, job) in ALIKE.into_iter().zip(arena.probe.ids()?) {
        let queue = QueueName::new(name)?;
        let stats = expect_one(arena.backend.stats(Some(&queue))?, "queue")?;
        expect_that("stats", (&stats.queue, stats.due), (&queue, 1))?;
        let (of_queue, of_kind) = (first.clone(), first.clone());
        for request in [
            ListRequest {
                queue: Some(queue),
                ..of_queue
            },
            ListRequest {
                kind: Some(Kind::new(name)?),
                ..of_kind
            },
        ] {
            let listed = expect_one(arena.backend.list(&request)?, "listed job")?;
            expect_that(format_args!("{request:?}"), listed.job_id, job)?;
        }
    }
    expect_that("queues", arena.backend.stats(None)?.len(), ALIKE.len())
}

// Report 51: long names work on one engine and fail on another, late and inside the caller's
// transaction.
fn names_of_the_largest_size_work<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for name in ["n".repeat(128), "🍣".repeat(32)] {
        let queue = QueueName::new(&name)?;
        let job = NewJob::new(&queue, Kind::new(&name)?, arena.job()?.payload().clone());
        arena.store(&job)?;

        let request = ClaimRequest::new(queue, WorkerId::new(&name)?);
        let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;

        let row = arena.row(&claimed)?;
        expect_eq((&*row.queue, &*row.kind), (&*name, &*name))?;
        expect_that("worker", row.worker_id.as_deref(), Some(&*name))?;
        let effect = EffectName::new(&name)?;
        let first_time = arena.backend.transaction(|tx| {
            let backend = arena.backend;
            backend.record_effect_in(tx, &claimed.receipt, &effect)
        })?;
        expect(first_time, "the effect was there before")?;
        arena.backend.ack_one(&claimed.receipt)?;
    }
    Ok(())
}

// Report 51. Keys that are cut are found again all the same: two that differ at their ends tell.
fn dedup_keys_of_the_largest_size_work<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let queue = QueueName::new("q".repeat(128))?;
    for stem in ["k".repeat(252), "🍺".repeat(63)] {
        let keyed = |end: &str| {
            let job = NewJob::new(&queue, Kind::new("note")?, arena.job()?.payload().clone());
            Ok(job.with_dedup(&(stem.clone() + end), DedupScope::WhileUnfinished)?)
        };
        let jobs = ["🍣", "🍺"]
            .map(keyed)
            .into_iter()
            .collect::<Check<Vec<_>>>()?;

        let stored = arena.backend.enqueue(&jobs)?;

        let new = stored.iter().all(|stored| stored.is_new());
        expect(
            new,
            format_args!("keys were taken for each other: {stored:?}"),
        )?;
        let again = arena.backend.enqueue(&jobs)?.into_iter();
        let again: Vec<_> = again.map(Enqueued::job_id).collect();
        let first: Vec<_> = stored.into_iter().map(|stored| stored.job_id()).collect();
        expect_that("ids", again, first)?;
    }
    Ok(())
}
