//! Business columns.

use queue_table_core::{ColumnType, ColumnValue};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let on = |column_type| Setup {
        columns: vec![("business_key", column_type)],
        ..Setup::default()
    };
    vec![
        scenario!(
            integer_columns_come_back_exactly,
            "Business columns of whole numbers come back exactly, from the smallest to the largest",
            [C3],
        )
        .on(on(ColumnType::Integer)),
        scenario!(
            text_columns_come_back_exactly,
            "Business columns of text come back exactly: empty, with blanks at the ends, of every plane",
            [C3],
        )
        .on(on(ColumnType::Text)),
        scenario!(
            uuid_columns_come_back_exactly,
            "Business columns of UUIDs come back exactly",
            [C3],
        )
        .on(on(ColumnType::Uuid)),
    ]
}

/// Stores a job with each value, and compares what every route gives back; NULL last.
fn expect_round_trips<F: Fixture>(arena: &Arena<'_, F>, values: Vec<ColumnValue>) -> Check {
    for value in values.into_iter().chain([ColumnValue::Null]) {
        let job = arena.job()?.with_column("business_key", value.clone())?;
        let id = arena.store(&job)?;
        let expected = [value];

        let claimed = arena.claim_one("worker-a")?;

        expect_that("row", arena.row(id)?.columns, &expected[..])?;
        expect_that("claimed job", claimed.columns, &expected[..])?;
        let record = expect_some(arena.backend.get(id)?, "record")?;
        expect_that("record", record.columns, &expected[..])?;
    }
    Ok(())
}

fn integer_columns_come_back_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let beyond_a_double = 9_007_199_254_740_993;
    let numbers = [i64::MIN, -1, 0, 1, beyond_a_double, i64::MAX];
    expect_round_trips(arena, numbers.map(ColumnValue::Integer).into())
}

fn text_columns_come_back_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let texts = [
        "",
        " ",
        " a ",
        "a",
        "A",
        "ä",
        "🍣",
        "it's -- $1 ? \\",
        "42",
        "null",
        "{}",
    ];
    expect_round_trips(arena, texts.map(ColumnValue::from).into())
}

fn uuid_columns_come_back_exactly<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let uuid = |text: &str| text.parse().map(ColumnValue::Uuid).map_err(Failed::new);
    let values = [
        uuid("00000000-0000-0000-0000-000000000000")?,
        uuid("ffffffff-ffff-ffff-ffff-ffffffffffff")?,
        uuid("0190c1a2-7b3c-7d4e-8f50-a1b2c3d4e5f6")?,
    ];
    expect_round_trips(arena, values.into())
}
