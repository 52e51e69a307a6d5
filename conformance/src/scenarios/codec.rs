//! Values go in and come out unchanged.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        payload_bytes_come_back_as_given,
        "A payload comes back byte for byte: blanks, key order, duplicate keys and number forms stay",
        [C4],
    )]
}

fn payload_bytes_come_back_as_given<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let text = r#" {"b":1, "a":2,"a":3,"n":9007199254740993,"f":1.10,"e":1e2,"s":"é🍺"} "#;

    let job = arena.store(&arena.job_with(text)?)?;

    expect_eq(arena.row(job)?.payload, text.as_bytes())?;
    let claimed = arena.claim_one("worker-a")?;
    expect_eq(claimed.payload.as_bytes(), text.as_bytes())
}
