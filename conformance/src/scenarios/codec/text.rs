//! Payloads and error texts.

use queue_table_core::{ErrorText, PAYLOAD_BYTES_MAX, Payload};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            payload_bytes_come_back_as_given,
            "A payload comes back byte for byte: blanks, key order, duplicate keys and number forms stay",
            [C4],
        ),
        scenario!(
            every_kind_of_json_value_is_a_payload,
            "Bare numbers, strings, null, empty and deeply nested values are payloads as much as objects",
            [C4, C23],
        ),
        scenario!(
            payloads_of_every_size_come_back_whole,
            "Payloads around 64 KiB and of the largest size come back whole",
            [C4],
        ),
        scenario!(
            characters_that_mean_something_elsewhere_stay_text,
            "Quotes, placeholders, escapes and characters of every plane stay what they are",
            [C4],
        ),
        scenario!(
            a_refused_value_leaves_the_transaction_usable,
            "A payload, a name or a batch that is refused leaves the caller's transaction as it was",
            [C3],
        ),
        scenario!(
            every_error_text_is_stored,
            "A failure is recorded whatever its text is: with NUL, of any plane, empty, or far too long",
            [C3, C26],
        ),
    ]
}

/// Stores each payload, and compares what every route gives back.
fn expect_round_trips<F: Fixture>(arena: &Arena<'_, F>, payloads: &[String]) -> Check {
    for text in payloads {
        let job = arena.store(&arena.job_with(text)?)?;
        let claimed = arena.claim_one("worker-a")?;
        let record = expect_some(arena.backend.get(job)?, "record")?;
        let stored = [
            ("row", arena.row(job)?.payload),
            ("claimed job", claimed.payload.as_bytes().to_vec()),
            ("record", record.payload.as_bytes().to_vec()),
        ];
        for (route, bytes) in stored {
            expect(
                bytes == text.as_bytes(),
                format_args!(
                    "{route}: a payload of {} bytes came back as {} other ones: {:.100}",
                    text.len(),
                    bytes.len(),
                    String::from_utf8_lossy(&bytes)
                ),
            )?;
        }
    }
    Ok(())
}

// Report 48: payload bytes come back changed, https://github.com/inflexa-ai/inflexa/pull/280.
fn payload_bytes_come_back_as_given<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let object =
        r#"{"b":1,"a":2,"a":3,"n":9007199254740993,"u":18446744073709551615,"f":1.10,"e":1e2}"#;
    let spaced = " {\"b\" : 1 ,\r\n\t\"a\":[ 1,2 ] , \"s\":\"é🍺\"} \n";
    expect_round_trips(arena, &[object.to_owned(), spaced.to_owned()])
}

fn every_kind_of_json_value_is_a_payload<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let nested = format!("{}{}", "[".repeat(30), "]".repeat(30));
    let object = format!("{}1{}", r#"{"a":"#.repeat(30), "}".repeat(30));
    let values = [
        "null", "true", "0", "-1.5e-3", "\"\"", "\"text\"", "[]", "{}", &nested, &object,
    ];
    expect_round_trips(arena, &values.map(str::to_owned))
}

// Report 49: a payload is cut in the middle,
// https://github.com/collectiveidea/delayed_job/issues/93.
fn payloads_of_every_size_come_back_whole<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let of_bytes = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let wide = format!("\"{}\"", "🍣".repeat((PAYLOAD_BYTES_MAX - 2) / 4));
    let sizes = [4_000, 8_001, 65_535, 65_536, 70_000, PAYLOAD_BYTES_MAX];
    let payloads: Vec<_> = sizes.map(of_bytes).into_iter().chain([wide]).collect();
    expect_round_trips(arena, &payloads)
}

fn characters_that_mean_something_elsewhere_stay_text<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let texts = [
        r#"{"sql":"it's -- $1 ?1 :name @p1 %s {job} ; /* \\ */ `x` \"y\""}"#,
        r#"{"escapes":"\u0001\u001f\/\b\f\n\r\t\u00e9\ud83c\udf63"}"#,
        "{\"planes\":\"\u{7f}\u{85}\u{a0}e\u{301}\u{200b}\u{2028}\u{fffd}\u{ffff}\u{1f363}\u{10ffff}\"}",
        "{\"\u{e9}\":1,\"e\u{301}\":2,\"\":3}",
    ];
    expect_round_trips(arena, &texts.map(str::to_owned))
}

// Reports 47 and 51: one refused value poisons the caller's transaction, such as
// https://github.com/hatchet-dev/hatchet/pull/2023.
fn a_refused_value_leaves_the_transaction_usable<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (good, odd) = (arena.job()?, arena.job()?.with_column("no_such_column", 7)?);

    arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "before")?;
        let payload = Payload::from_json(r#"{"a":"x\u0000y"}"#);
        expect(payload.is_err(), "a payload with NUL was taken")?;
        let name = WorkerId::new("w".repeat(129));
        expect(name.is_err(), "a name of 129 bytes was taken")?;
        let batch = [good.clone(), odd];
        let refused = expect_rejected(arena.backend.enqueue_in(tx, &batch))?;
        let invalid = matches!(refused, Rejected::Invalid(_));
        expect(invalid, format_args!("another rejection: {refused}"))?;
        arena.probe.effect_in(tx, "after")?;
        arena.backend.enqueue_in(tx, std::slice::from_ref(&good))?;
        Ok::<(), Failed>(())
    })?;

    expect_that("effects", arena.probe.effects()?, ["before", "after"])?;
    expect_that("jobs", arena.probe.ids()?.len(), 1)
}

// Report 46: recording a failure fails, https://github.com/collectiveidea/delayed_job/issues/774.
fn every_error_text_is_stored<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let texts = [
        "a\0b".to_owned(),
        "🍣 it's\n-- $1 \u{fffd}".to_owned(),
        String::new(),
        "x".repeat(3_000_000),
        format!("a{}", "🍺".repeat(750_000)),
    ];
    for given in &texts {
        let claimed = arena.enqueue_and_claim("worker-a")?;
        let text = ErrorText::new(given);

        arena.backend.fail_one(&retry(&claimed, 3_600, given)?)?;

        let row = arena.row(&claimed)?;
        expect_that("state", row.state, State::Ready)?;
        expect_that("last error", row.last_error.as_deref(), Some(text.as_str()))?;
        let record = expect_one(arena.backend.failures(claimed.job_id())?, "failure")?;
        expect_that("failure", record.error.as_deref(), Some(text.as_str()))?;
    }
    Ok(())
}
