//! Effects in the same database: in one commit with the ack, or once per job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queue_table_conformance::Probe;
use queue_table_core::worker::{HandlerError, Outcome};
use queue_table_core::{Error, State};

use crate::support::{Bench, Fault, KIND, ms, until};

#[test]
fn effect_and_ack_are_one_commit() {
    let bench = Bench::new();
    let ids = bench.jobs(5);
    let probe = Arc::clone(&bench.probe);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, move |_, context| {
            context.transaction(|tx| probe.effect_in(tx, "sent").map_err(HandlerError::from))
        })
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    until("all is counted", || worker.report().succeeded == 5);
    assert_eq!(bench.probe.effects().unwrap().len(), 5);
    assert_eq!(bench.backend.calls("ack"), 0);
}

#[test]
fn a_stale_claim_rolls_the_effect_back() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let probe = Arc::clone(&bench.probe);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, move |job, context| {
            if job.attempt() == 1 {
                probe
                    .rewind(job.job_id(), Duration::from_secs(3_600))
                    .unwrap();
            }
            let ended = context.transaction(|tx| {
                let text = format!("attempt {}", job.attempt());
                probe.effect_in(tx, &text).map_err(HandlerError::from)
            });
            assert_eq!(ended.is_ok(), context.is_current());
            ended
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    until("all is counted", || worker.report().succeeded == 1);
    assert_eq!(bench.probe.effects().unwrap(), ["attempt 2"]);
    assert_eq!(worker.report().lost.total(), 1);
}

#[test]
fn a_lost_reply_to_the_commit_is_looked_into() {
    for (fault, transactions) in [(Fault::ReplyLost, 1), (Fault::RequestLost, 2)] {
        let bench = Bench::new();
        bench.backend.fail("transaction", [fault]);
        let id = bench.jobs(1)[0];
        let probe = Arc::clone(&bench.probe);
        let worker = bench
            .worker()
            .handle_kind(KIND, 1..=1, move |_, context| {
                context.transaction(|tx| probe.effect_in(tx, "sent").map_err(HandlerError::from))
            })
            .start()
            .unwrap();
        bench.until_all(&[id], State::Succeeded);
        until("all is counted", || worker.report().succeeded == 1);
        assert_eq!(bench.probe.effects().unwrap(), ["sent"], "{fault:?}");
        assert_eq!(
            bench.backend.calls("transaction"),
            transactions,
            "{fault:?}"
        );
        assert_eq!(worker.report().lost.total(), 0, "{fault:?}");
    }
}

#[test]
fn what_a_handler_says_after_its_own_ack_is_not_heard() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, context| {
            context.transaction(|_| Ok::<(), Error>(())).unwrap();
            Outcome::dead("too late")
        })
        .start()
        .unwrap();
    until("all is counted", || worker.report().succeeded == 1);
    assert_eq!(
        (bench.state(id), worker.report().dead),
        (State::Succeeded, 0)
    );
}

#[test]
fn a_step_done_once_is_not_repeated_by_the_next_attempt() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let (probe, ran) = (Arc::clone(&bench.probe), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ran);
    let _worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, move |job, context| {
            let first = context.once("charge", |tx| {
                count.fetch_add(1, Ordering::SeqCst);
                probe.effect_in(tx, "charged").map_err(HandlerError::from)
            })?;
            assert_eq!(first.is_some(), job.attempt() == 1);
            if job.attempt() < 3 {
                Err(HandlerError::from("not all is done"))
            } else {
                Ok(())
            }
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(bench.probe.effects().unwrap(), ["charged"]);
}

#[test]
fn a_failed_step_is_not_recorded() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let probe = Arc::clone(&bench.probe);
    let _worker = bench
        .worker()
        .lease(Duration::from_secs(5))
        .handle_kind(KIND, 1..=1, move |job, context| {
            context.once("charge", |tx| {
                probe.effect_in(tx, "charged")?;
                if job.attempt() == 1 {
                    Err(HandlerError::from("declined"))
                } else {
                    Ok(())
                }
            })?;
            std::thread::sleep(ms(1));
            Ok::<(), HandlerError>(())
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    assert_eq!(bench.probe.effects().unwrap(), ["charged"]);
    assert_eq!(bench.row(id).attempts, 2);
}
