//! Enqueue: business columns, and batches with a job that is refused.

use queue_table_core::{ColumnType, ColumnValue, Enqueued, JobId};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let business_columns = || Setup {
        columns: vec![
            ("order_id", ColumnType::Integer),
            ("tenant", ColumnType::Text),
        ],
        ..Setup::default()
    };
    vec![
        scenario!(
            a_batch_with_a_bad_job_stores_nothing,
            "A batch with one job that is refused stores none of its jobs, first or last",
            [C3, C6, C26],
        )
        .on(business_columns()),
        scenario!(
            each_job_keeps_its_own_columns,
            "In a batch, each job keeps its own business columns, and NULL where it gave none",
            [C6],
        )
        .on(business_columns()),
        scenario!(
            values_that_do_not_fit_their_column_are_refused,
            "A value of another type than its business column, or with NUL, is refused before anything is stored",
            [C3],
        )
        .on(business_columns()),
    ]
}

fn a_batch_with_a_bad_job_stores_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let before = arena.snapshot()?;
    for (size, bad) in [(3, 1), (2_500, 2_499)] {
        let mut jobs = vec![arena.job()?; size];
        jobs[bad] = arena.job()?.with_column("no_such_column", 7)?;

        let refused = expect_rejected(arena.backend.enqueue(&jobs))?;

        let invalid = matches!(refused, Rejected::Invalid(_));
        expect(invalid, format_args!("another rejection: {refused}"))?;
        arena.expect_unchanged(&before)?;
    }
    Ok(())
}

fn each_job_keeps_its_own_columns<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = [
        arena.job()?,
        arena
            .job()?
            .with_column("tenant", "b")?
            .with_column("order_id", 1)?,
        arena.job()?.with_column("order_id", 2)?,
        arena.job()?.with_column("tenant", "d")?,
    ];
    let (null, text) = (ColumnValue::Null, |text: &str| ColumnValue::from(text));
    let expected = [
        [null.clone(), null.clone()],
        [1.into(), text("b")],
        [2.into(), null.clone()],
        [null, text("d")],
    ];

    let stored = arena.backend.enqueue(&jobs)?;

    let stored: Vec<JobId> = stored.into_iter().map(Enqueued::job_id).collect();
    for (job, columns) in stored.iter().zip(&expected) {
        expect_that("stored columns", &*arena.row(job)?.columns, columns)?;
    }
    let claimed = arena.claim("worker-a", 4)?;
    expect_that("claimed jobs", ids(&claimed), stored)?;
    for (claimed, columns) in claimed.iter().zip(&expected) {
        expect_that("claimed columns", &*claimed.columns, columns)?;
    }
    Ok(())
}

fn values_that_do_not_fit_their_column_are_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let before = arena.snapshot()?;
    for job in [
        arena.job()?.with_column("order_id", "7")?,
        arena.job()?.with_column("tenant", 7)?,
        arena.job()?.with_column("tenant", "a\0b")?,
        arena.job()?.with_column("custmer", ColumnValue::Null)?,
    ] {
        let refused = expect_rejected(arena.backend.enqueue_one(&job))?;

        let invalid = matches!(refused, Rejected::Invalid(_));
        expect(invalid, format_args!("another rejection: {refused}"))?;
    }
    arena.expect_unchanged(&before)
}
