//! Bad input and large batches inside the caller's transaction.

use queue_table_core::{
    BATCH_MAX, Delay, ENQUEUE_MAX, Enqueued, Failure, Fenced, LeaseLength, NewJob, Payload,
    QueueName,
};

use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, roll_back, told};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            bad_input_leaves_the_transaction_usable,
            "Requests that are rejected leave the caller's transaction usable, and what came before them stands",
            [C3, C26],
        ),
        scenario!(
            ten_thousand_jobs_in_a_transaction_are_all_or_nothing,
            "The largest batch in a caller's transaction is stored as a whole, in order, or not at all",
            [C1, C6],
        ),
        scenario!(
            the_largest_batches_work,
            "A thousand jobs are claimed, renewed, given up and acked in one call each",
            [C8, C13, C16],
        ),
        scenario!(
            missing_tables_are_told_inside_a_transaction,
            "Without tables an enqueue in a transaction says so, creates none, and the caller's row rolls back",
            [C2, C26],
        )
        .on(Setup {
            migrated: false,
            ..Setup::default()
        }),
    ]
}

/// Report 47: a payload that one engine refuses must not cost the caller's transaction.
fn bad_input_leaves_the_transaction_usable<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, too_many) = (arena.job()?, vec![arena.job()?; ENQUEUE_MAX + 1]);
    let unknown = arena.job()?.with_column("no_such_column", 1)?;

    let stored = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "before")?;
        let nul = Payload::from_json(r#"{"a":"x\u0000y"}"#);
        expect(nul.is_err(), "a NUL in a payload was taken")?;
        expect(QueueName::new("mail ").is_err(), "a blank edge was taken")?;
        expect_rejected(arena.backend.enqueue_in(tx, &too_many))?;
        expect_rejected(arena.backend.enqueue_in(tx, &[job.clone(), unknown]))?;
        arena.probe.effect_in(tx, "after")?;
        Ok::<_, Left>(arena.backend.enqueue_in(tx, &[job])?)
    })?;

    expect_eq(arena.probe.effects()?, ["before", "after"])?;
    let stored: Vec<_> = stored.into_iter().map(Enqueued::job_id).collect();
    expect_eq(arena.probe.ids()?, stored)
}

/// Report 53: engines limit how many parameters or rows a statement may have.
fn ten_thousand_jobs_in_a_transaction_are_all_or_nothing<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let jobs: Vec<NewJob> = (0..ENQUEUE_MAX)
        .map(|number| arena.job_with(&number.to_string()))
        .collect::<Check<_>>()?;

    let rolled_back = arena.backend.transaction(|tx| {
        arena.backend.enqueue_in(tx, &jobs)?;
        roll_back::<()>()
    });
    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    expect_eq(arena.probe.ids()?, [])?;
    let stored = arena
        .backend
        .transaction(|tx| arena.backend.enqueue_in(tx, &jobs))?;

    expect_that("rows", arena.probe.ids()?.len(), ENQUEUE_MAX)?;
    expect_that("ids", stored.len(), ENQUEUE_MAX)?;
    for number in [0, 999, 1_000, 5_461, ENQUEUE_MAX - 1] {
        let row = arena.row(stored[number])?;
        expect_that("payload", row.payload, number.to_string().as_bytes())?;
    }
    Ok(())
}

/// Report 53, for the other operations.
fn the_largest_batches_work<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(BATCH_MAX as usize)?;
    let claim = || {
        let claimed = arena.claim("worker-a", BATCH_MAX)?;
        let receipts = claimed.into_iter().map(|job| job.receipt);
        Check::Ok(receipts.collect::<Vec<_>>())
    };

    let first = claim()?;
    let renewed = arena.backend.renew(&first, LeaseLength::default())?;
    let back = first.into_iter();
    let back: Vec<_> = back
        .map(|receipt| Failure::release(receipt, Delay::ZERO))
        .collect();
    let released = arena.backend.fail(&back)?;
    let acked = arena.backend.ack(&claim()?)?;

    let granted = |answers: &[Fenced<()>]| answers.iter().filter(|one| one.is_ok()).count();
    expect_that("renewed", granted(&renewed), jobs.len())?;
    expect_that("released", released.iter().flatten().count(), jobs.len())?;
    expect_that("acked", granted(&acked), jobs.len())?;
    for job in jobs {
        arena.expect_state(job, State::Succeeded)?;
    }
    Ok(())
}

/// Report 57: making tables on demand would commit the caller's transaction on some engines.
fn missing_tables_are_told_inside_a_transaction<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job()?;

    let answer = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "order")?;
        Ok(arena.backend.enqueue_in(tx, &[job])?)
    });

    expect_kind(told(answer)?, "schema")?;
    expect_that("effects", arena.probe.effects()?.len(), 0)?;
    arena.backend.migrate()?;
    expect_eq(arena.probe.ids()?, [])
}
