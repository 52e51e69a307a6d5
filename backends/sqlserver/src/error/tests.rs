//! One row per error number that a queue can meet.

use std::io::ErrorKind;

use tiberius::error::Error as Driver;

use super::*;

fn answered(number: u32, class: u8, message: &str) -> Error {
    let answer = Answer {
        number,
        class,
        message: message.to_owned(),
    };
    answer.judge("claim", message)
}

const TABLE: &[(u32, u8, &str)] = &[
    (1205, 13, "contention"),
    (1222, 16, "contention"),
    (3902, 16, "contention"),
    (3903, 16, "contention"),
    (3930, 16, "contention"),
    (3960, 16, "contention"),
    (3961, 16, "contention"),
    (3998, 16, "contention"),
    (515, 16, "rejected"),
    (547, 16, "rejected"),
    (2601, 14, "rejected"),
    (2627, 14, "rejected"),
    (2628, 16, "rejected"),
    (8152, 16, "rejected"),
    (208, 16, "schema"),
    (195, 15, "unsupported"),
    (317, 15, "unsupported"),
    (319, 15, "unsupported"),
    (334, 16, "unsupported"),
    (650, 16, "unsupported"),
    (651, 16, "unsupported"),
    (1047, 15, "unsupported"),
    (1934, 16, "unsupported"),
    (4140, 16, "unsupported"),
    (13609, 16, "unsupported"),
    (596, 21, "unavailable"),
    (615, 21, "unavailable"),
    (701, 17, "unavailable"),
    (802, 17, "unavailable"),
    (921, 14, "unavailable"),
    (924, 14, "unavailable"),
    (926, 14, "unavailable"),
    (927, 14, "unavailable"),
    (941, 14, "unavailable"),
    (942, 14, "unavailable"),
    (945, 14, "unavailable"),
    (952, 16, "unavailable"),
    (976, 14, "unavailable"),
    (978, 14, "unavailable"),
    (979, 14, "unavailable"),
    (983, 14, "unavailable"),
    (1101, 17, "unavailable"),
    (1105, 17, "unavailable"),
    (1204, 19, "unavailable"),
    (3906, 16, "unavailable"),
    (3908, 16, "unavailable"),
    (4060, 11, "unavailable"),
    (4221, 16, "unavailable"),
    (6005, 10, "unavailable"),
    (8645, 17, "unavailable"),
    (8651, 17, "unavailable"),
    (9002, 17, "unavailable"),
    (10928, 20, "unavailable"),
    (10929, 20, "unavailable"),
    (10936, 16, "unavailable"),
    (17142, 14, "unavailable"),
    (18401, 14, "unavailable"),
    (40197, 17, "unavailable"),
    (40501, 20, "unavailable"),
    (40540, 16, "unavailable"),
    (40544, 17, "unavailable"),
    (40549, 16, "unavailable"),
    (40550, 16, "unavailable"),
    (40551, 16, "unavailable"),
    (40552, 16, "unavailable"),
    (40553, 16, "unavailable"),
    (40613, 17, "unavailable"),
    (49918, 16, "unavailable"),
    (49919, 16, "unavailable"),
    (49920, 16, "unavailable"),
    (102, 15, "engine"),
    (207, 16, "engine"),
    (229, 14, "engine"),
    (18452, 14, "engine"),
    (18456, 14, "engine"),
    (99_999, 20, "unavailable"),
];

#[test]
fn every_number_tells_the_callers_next_step() {
    for (number, class, kind) in TABLE {
        let error = answered(*number, *class, "text");
        assert_eq!(error.kind(), *kind, "{number}");
    }
}

#[test]
fn a_cut_connection_a_timeout_and_a_broken_protocol_are_unavailable() {
    for kind in [
        ErrorKind::UnexpectedEof,
        ErrorKind::TimedOut,
        ErrorKind::ConnectionRefused,
    ] {
        let message = "cut".to_owned();
        assert_eq!(
            map("ack")(Driver::Io { kind, message }).kind(),
            "unavailable"
        );
    }
    assert_eq!(
        map("ack")(Driver::Protocol("x".into())).kind(),
        "unavailable"
    );
    assert_eq!(map("ack")(Driver::Tls("x".into())).kind(), "unavailable");
    assert_eq!(map("ack")(Driver::Utf16).kind(), "engine");
}

#[test]
fn a_commit_without_an_answer_is_unknown_and_with_one_it_is_known() {
    let cut = || Driver::Io {
        kind: ErrorKind::UnexpectedEof,
        message: "cut".to_owned(),
    };
    assert_eq!(commit("enqueue")(cut()).kind(), "outcome_unknown");
    assert!(!is_decisive(20), "the server closed the connection");
    assert!(is_decisive(13), "a deadlock victim is rolled back");
}

#[test]
fn a_refused_row_names_the_constraint() {
    let said = [
        (
            547,
            r#"The INSERT statement conflicted with the CHECK constraint "job_state". The conflict occurred in database"#,
            "job_state",
        ),
        (
            2627,
            "Violation of PRIMARY KEY constraint 'job_pk'. Cannot insert duplicate key in object 'dbo.job'.",
            "job_pk",
        ),
        (
            2601,
            "Cannot insert duplicate key row in object 'dbo.job' with unique index 'one_per_order'.",
            "one_per_order",
        ),
        (
            515,
            "Cannot insert the value NULL into column 'order_id', table 'shop.dbo.job'; column does not allow nulls.",
            "order_id",
        ),
        (
            8152,
            "String or binary data would be truncated.",
            "error 8152",
        ),
    ];
    for (number, message, name) in said {
        let Error::Rejected(Rejected::Constraint { constraint, .. }) =
            answered(number, 16, message)
        else {
            panic!("{number} is no constraint");
        };
        assert_eq!(constraint, name);
    }
}
