//! Making the tables, and looking whether they are right.

use queue_table_core::{Migrated, Severity};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let never_migrated = || Setup {
        migrated: false,
        ..Setup::default()
    };
    vec![
        scenario!(
            migrate_makes_tables_that_work,
            "A migration makes the tables, says so, and says the second time that nothing was to do",
            [C26],
        )
        .on(never_migrated()),
        scenario!(
            migrating_again_keeps_everything,
            "A second migration, under running claims too, changes nothing that is stored",
            [C13, C27],
        ),
        scenario!(
            eight_processes_may_migrate_at_once,
            "Eight sessions that migrate the same empty database at once all succeed",
            [C26, C27],
        )
        .on(never_migrated()),
        scenario!(
            check_finds_nothing_fatal_on_good_tables,
            "A check of migrated tables finds nothing that breaks the contract, and changes nothing",
            [C26],
        ),
        scenario!(
            check_finds_missing_tables,
            "A check without tables says so as a finding, not as an error",
            [C26],
        )
        .on(never_migrated()),
    ]
}

fn migrate_makes_tables_that_work<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let made = arena.backend.migrate()?;

    expect_that("version found at first", made.from, None)?;
    arena.enqueue_and_claim("worker-a")?;
    let again = Migrated {
        from: Some(made.to),
        to: made.to,
    };
    expect_that("second time", arena.backend.migrate()?, again)
}

fn migrating_again_keeps_everything<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (other, _) = (arena.dead_job()?, arena.enqueue(3)?);
    let claimed = arena.claim_one("worker-a")?;
    arena.backend.pause(&arena.queue)?;
    let before = arena.snapshot()?;

    arena.session()?.migrate()?;

    arena.expect_unchanged(&before)?;
    arena.backend.ack_one(&claimed.receipt)?;
    arena.expect_state(other, State::Dead)
}

// Report 58: replicas that start together fail the migration,
// https://github.com/svix/svix-webhooks/issues/2589.
fn eight_processes_may_migrate_at_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let sessions = (0..8).map(|_| arena.session());
    let sessions = sessions.collect::<Check<Vec<_>>>()?;

    let migrated = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter()
            .map(|session| scope.spawn(|| session.migrate()))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| Ok(result.map_err(|_| Failed::new("a session panicked"))??))
            .collect::<Check<Vec<_>>>()
    })?;

    let made = migrated.iter().filter(|one| one.from.is_none()).count();
    expect_that("migrations that found no tables", made, 1)?;
    let same = migrated.iter().all(|one| one.to == migrated[0].to);
    expect(same, format_args!("different versions: {migrated:?}"))?;
    arena.enqueue_and_claim("worker-a").map(|_| ())
}

fn check_finds_nothing_fatal_on_good_tables<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let before = arena.snapshot()?;

    let findings = arena.backend.check()?;

    let fatal = |severity| severity >= Severity::Fatal;
    let worst = findings.iter().find(|finding| fatal(finding.severity));
    expect(worst.is_none(), format_args!("found {worst:?}"))?;
    arena.expect_unchanged(&before)
}

fn check_finds_missing_tables<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let findings = arena.backend.check()?;

    let fatal = |severity| severity >= Severity::Fatal;
    expect(
        findings.iter().any(|finding| fatal(finding.severity)),
        format_args!("nothing fatal among {findings:?}"),
    )?;
    arena.backend.migrate()?;
    arena.enqueue_and_claim("worker-a").map(|_| ())
}
