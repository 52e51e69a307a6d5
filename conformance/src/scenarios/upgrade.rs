//! Several versions of tables and payloads.

use queue_table_core::{
    BatchSize, Delay, Error, ErrorText, Failure, JobId, Kind, LeaseLength, ListRequest,
    MaxAttempts, PurgeRequest, ReapRequest, RetryPolicy, Severity,
};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let never_migrated = || Setup {
        migrated: false,
        ..Setup::default()
    };
    vec![
        scenario!(
            tables_that_were_never_migrated_are_told,
            "Without tables every operation says that they are missing, and none makes them",
            [C26],
        )
        .on(never_migrated()),
        scenario!(
            tables_that_were_never_migrated_are_told_to_operators,
            "Without tables everything that operators ask for says that they are missing",
            [C26],
        )
        .on(never_migrated()),
        scenario!(
            tables_of_a_newer_build_are_left_alone,
            "An older build does not migrate the tables of a newer one, and its check says that they do not match",
            [C26],
        ),
        scenario!(
            an_old_worker_leaves_newer_payloads_to_new_ones,
            "While two builds run side by side, each is given the payload versions it understands",
            [C7],
        ),
        scenario!(
            a_receipt_may_travel_to_another_process,
            "A receipt that was written down as JSON finishes its job in another session",
            [C13, C16],
        ),
        scenario!(
            a_budget_lowered_under_a_running_claim_ends_with_it,
            "When an operator lowers max_attempts below attempts, the running claim may still finish or fail, as dead",
            [C13, C19, C21],
        ),
    ]
}

// Report 57: lazy DDL commits the caller's transaction,
// https://github.com/datajoint/datajoint-python/issues/84.
fn tables_that_were_never_migrated_are_told<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (backend, job) = (arena.backend, arena.job()?);
    let receipt = Receipt::new(JobId::new(1), 1, WorkerId::new("worker-a")?);
    let failure = Failure::dead(receipt.clone(), ErrorText::new("given up"));
    let reap = ReapRequest::new(BatchSize::ONE, RetryPolicy::default());
    let request = arena.request("worker-a")?;

    for _ in 0..2 {
        expect_kind(backend.enqueue_one(&job), "schema")?;
        expect_kind(backend.claim(&request), "schema")?;
        expect_kind(
            backend.renew_one(&receipt, LeaseLength::default()),
            "schema",
        )?;
        expect_kind(backend.ack_one(&receipt), "schema")?;
        expect_kind(backend.fail_one(&failure), "schema")?;
        expect_kind(backend.reap(&reap), "schema")?;
        let in_transaction =
            backend.transaction(|tx| backend.enqueue_in(tx, std::slice::from_ref(&job)));
        expect_kind(in_transaction, "schema")?;
        let in_transaction = backend.transaction(|tx| backend.claim_in(tx, &request));
        expect_kind(in_transaction, "schema")?;
    }
    backend.migrate()?;
    arena.enqueue_and_claim("worker-a").map(|_| ())
}

fn tables_that_were_never_migrated_are_told_to_operators<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let (backend, job) = (arena.backend, JobId::new(1));
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::ONE,
        cursor: None,
    };

    expect_kind(backend.get(job), "schema")?;
    expect_kind(backend.list(&ListRequest::first(BatchSize::ONE)), "schema")?;
    expect_kind(backend.failures(job), "schema")?;
    expect_kind(backend.stats(None), "schema")?;
    expect_kind(backend.replay(job, MaxAttempts::default()), "schema")?;
    expect_kind(backend.cancel(job, &ErrorText::new("stop")), "schema")?;
    expect_kind(backend.purge(&purge), "schema")?;
    expect_kind(backend.pause(&arena.queue), "schema")?;
    expect_kind(backend.resume(&arena.queue), "schema")?;

    let migrated = backend.migrate()?;
    expect_that("version found", migrated.from, None)
}

fn tables_of_a_newer_build_are_left_alone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let (ours, newer) = (arena.backend.migrate()?.to, 1_000_000);
    let before = arena.snapshot()?;
    arena.probe.set_version(newer)?;
    let older = arena.session()?;

    let refused = expect_kind(older.migrate(), "schema")?;

    if let Error::Schema { found, needed, .. } = refused {
        expect_that("versions", (found, needed), (Some(newer), ours))?;
    }
    let findings = older.check()?;
    let fatal = |severity| severity >= Severity::Fatal;
    expect(
        findings.iter().any(|finding| fatal(finding.severity)),
        format_args!("nothing fatal among {findings:?}"),
    )?;
    arena.expect_unchanged(&before)?;
    arena.expect_state(claimed, State::Running)
}

fn an_old_worker_leaves_newer_payloads_to_new_ones<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let newer = arena.store(&arena.job()?.with_payload_version(2).with_priority(9))?;
    let older = arena.store(&arena.job()?.with_payload_version(1))?;
    let claim = |worker: &str, versions| {
        let request = arena.request(worker)?.with_limit(BatchSize::new(10)?);
        let request = request.accepting([(Kind::new("note")?, versions)].into());
        Ok::<_, Failed>(ids(&arena.backend.claim(&request)?))
    };

    expect_that("the old worker's", claim("old-build", 1..=1)?, [older])?;
    expect_that("the old worker's next", claim("old-build", 1..=1)?, [])?;
    let row = arena.row(newer)?;
    expect_that(
        "the newer job",
        (row.state, row.attempts),
        (State::Ready, 0),
    )?;
    expect_that("the new worker's", claim("new-build", 1..=2)?, [newer])?;
    expect_that("its version", arena.row(newer)?.payload_version, 2)
}

fn a_receipt_may_travel_to_another_process<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("Wörker 🍣/1")?;
    let text = serde_json::to_string(&claimed.receipt).map_err(Failed::new)?;
    let other = arena.session()?;

    let receipt: Receipt = serde_json::from_str(&text).map_err(Failed::new)?;
    other.renew_one(&receipt, LeaseLength::default())?;
    other.ack_one(&receipt)?;

    arena.expect_state(&claimed, State::Succeeded)?;
    expect_lost(
        arena.backend.ack_one(&claimed.receipt),
        LostReason::Finished,
    )
}

// Report 27: a row whose budget was lowered blocks its queue,
// https://github.com/oban-bg/oban/issues/652.
fn a_budget_lowered_under_a_running_claim_ends_with_it<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let acked = arena.reclaim(&first, "worker-a")?;
    let lowered = arena
        .probe
        .write(acked.job_id(), &[Change::MaxAttempts(1)])?;
    expect_that("lowered", lowered, Written::Stored)?;

    arena.backend.ack_one(&acked.receipt)?;
    arena.expect_state(&acked, State::Succeeded)?;

    let first = arena.enqueue_and_claim("worker-a")?;
    let failed = arena.reclaim(&first, "worker-a")?;
    arena
        .probe
        .write(failed.job_id(), &[Change::MaxAttempts(1)])?;

    let disposition = arena.backend.fail_one(&retry(&failed, 60, "again")?)?;

    expect_that("answer", disposition, queue_table_core::Disposition::Dead)?;
    let row = arena.row(&failed)?;
    expect_that("row", (row.state, row.attempts), (State::Dead, 2))
}
