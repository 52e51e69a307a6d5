//! One statement with its parameters, as a diesel query whose prepared form is cached by its text.

use std::marker::PhantomData;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use queue_table_core::{ColumnType, ColumnValue};
use uuid::Uuid;

use crate::sql::SqlText;

/// A parameter's value.
#[derive(Debug)]
pub(crate) enum Bind<'a> {
    BigInt(i64),
    BigIntOrNull(Option<i64>),
    Integer(i32),
    Text(&'a str),
    TextOrNull(Option<&'a str>),
    UuidOrNull(Option<Uuid>),
    Instant(diesel::data_types::PgTimestamp),
    BigInts(Vec<i64>),
    BigIntsOrNulls(Vec<Option<i64>>),
    Integers(Vec<i32>),
    IntegersOrNull(Option<Vec<i32>>),
    Texts(Vec<&'a str>),
    TextsOrNull(Option<Vec<&'a str>>),
    TextsOrNulls(Vec<Option<&'a str>>),
    UuidsOrNulls(Vec<Option<Uuid>>),
}

impl<'a> Bind<'a> {
    /// One value of a business column. Its type was checked when the values were arranged.
    pub(crate) fn column(column_type: ColumnType, value: &'a ColumnValue) -> Self {
        match column_type {
            ColumnType::Integer => Self::BigIntOrNull(integer(value)),
            ColumnType::Text => Self::TextOrNull(text(value)),
            ColumnType::Uuid => Self::UuidOrNull(uuid(value)),
        }
    }

    /// The values of one business column in a batch.
    pub(crate) fn columns(
        column_type: ColumnType,
        values: impl Iterator<Item = &'a ColumnValue>,
    ) -> Self {
        match column_type {
            ColumnType::Integer => Self::BigIntsOrNulls(values.map(integer).collect()),
            ColumnType::Text => Self::TextsOrNulls(values.map(text).collect()),
            ColumnType::Uuid => Self::UuidsOrNulls(values.map(uuid).collect()),
        }
    }

    fn push<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        match self {
            Self::BigInt(value) => out.push_bind_param::<BigInt, _>(value),
            Self::BigIntOrNull(value) => out.push_bind_param::<Nullable<BigInt>, _>(value),
            Self::Integer(value) => out.push_bind_param::<Integer, _>(value),
            Self::Text(value) => out.push_bind_param::<Text, _>(value),
            Self::TextOrNull(value) => out.push_bind_param::<Nullable<Text>, _>(value),
            Self::UuidOrNull(value) => out.push_bind_param::<Nullable<SqlUuid>, _>(value),
            Self::Instant(value) => out.push_bind_param::<Timestamptz, _>(value),
            Self::BigInts(values) => out.push_bind_param::<Array<BigInt>, _>(values),
            Self::BigIntsOrNulls(values) => {
                out.push_bind_param::<Array<Nullable<BigInt>>, _>(values)
            }
            Self::Integers(values) => out.push_bind_param::<Array<Integer>, _>(values),
            Self::IntegersOrNull(values) => {
                out.push_bind_param::<Nullable<Array<Integer>>, _>(values)
            }
            Self::Texts(values) => out.push_bind_param::<Array<Text>, _>(values),
            Self::TextsOrNull(values) => out.push_bind_param::<Nullable<Array<Text>>, _>(values),
            Self::TextsOrNulls(values) => out.push_bind_param::<Array<Nullable<Text>>, _>(values),
            Self::UuidsOrNulls(values) => {
                out.push_bind_param::<Array<Nullable<SqlUuid>>, _>(values)
            }
        }
    }
}

fn integer(value: &ColumnValue) -> Option<i64> {
    match value {
        ColumnValue::Integer(value) => Some(*value),
        _ => None,
    }
}

fn text(value: &ColumnValue) -> Option<&str> {
    match value {
        ColumnValue::Text(value) => Some(value),
        _ => None,
    }
}

fn uuid(value: &ColumnValue) -> Option<Uuid> {
    match value {
        ColumnValue::Uuid(value) => Some(*value),
        _ => None,
    }
}

/// A text with its parameters; `Shape` is the SQL type of its rows.
#[derive(Debug)]
pub(crate) struct Statement<'a, Shape> {
    text: &'a SqlText,
    binds: Vec<Bind<'a>>,
    shape: PhantomData<Shape>,
}

impl<'a, Shape> Statement<'a, Shape> {
    pub(crate) fn new(text: &'a SqlText, binds: Vec<Bind<'a>>) -> Self {
        Self {
            text,
            binds,
            shape: PhantomData,
        }
    }
}

impl<Shape> QueryFragment<Pg> for Statement<'_, Shape> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if !self.text.is_cached() {
            out.unsafe_to_cache_prepared();
        }
        for (sql, parameter) in self.text.pieces() {
            out.push_sql(sql);
            if let Some(parameter) = parameter {
                let missing = || {
                    let message = format!("parameter {} has no value", parameter + 1);
                    diesel::result::Error::QueryBuilderError(message.into())
                };
                self.binds
                    .get(*parameter)
                    .ok_or_else(missing)?
                    .push(&mut out)?;
            }
        }
        Ok(())
    }
}

/// No static id: with one, all texts of this type would share one prepared statement.
impl<Shape> QueryId for Statement<'_, Shape> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Shape> Query for Statement<'_, Shape> {
    type SqlType = Shape;
}

impl<Shape> RunQueryDsl<PgConnection> for Statement<'_, Shape> {}
