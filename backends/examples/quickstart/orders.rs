//! Reads orders from CSV: what is well-formed comes out as an order, what is not is named by line.

use std::collections::HashMap;
use std::fmt;
use std::io::Read;

/// The header that the file must have.
pub(crate) const COLUMNS: [&str; 6] = [
    "order_id",
    "ordered_on",
    "customer",
    "item",
    "quantity",
    "unit_price",
];

/// One order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) order_id: i64,
    pub(crate) ordered_on: String,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) quantity: i64,
    pub(crate) unit_price_cents: i64,
}

/// Why a line is no order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Unreadable(String),
    Columns(usize),
    Value {
        column: &'static str,
        given: String,
        allowed: &'static str,
    },
    Duplicate {
        order_id: i64,
        first_line: u64,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => f.write_str(reason),
            Self::Columns(given) => write!(f, "has {given} columns instead of {}", COLUMNS.len()),
            Self::Value {
                column,
                given,
                allowed,
            } => {
                write!(f, "{column} is {given:?}; {allowed} is allowed")
            }
            Self::Duplicate {
                order_id,
                first_line,
            } => {
                write!(f, "order_id {order_id} stands on line {first_line} already")
            }
        }
    }
}

/// The orders of a CSV text, each with its line number.
pub(crate) struct Orders<R> {
    records: csv::StringRecordsIntoIter<R>,
    seen: HashMap<i64, u64>,
}

impl<R: Read> Orders<R> {
    /// Reads the header, and refuses a file with another one.
    pub(crate) fn open(source: R) -> Result<Self, String> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
        let header = reader.headers().map_err(|error| error.to_string())?;
        if header.iter().map(str::trim).ne(COLUMNS) {
            return Err(format!(
                "the first line is {:?}; it must be {}",
                header.iter().collect::<Vec<_>>().join(","),
                COLUMNS.join(",")
            ));
        }
        Ok(Self {
            records: reader.into_records(),
            seen: HashMap::new(),
        })
    }

    fn check_new(&mut self, line: u64, order: Order) -> Result<Order, Malformed> {
        let order_id = order.order_id;
        match self.seen.insert(order_id, line) {
            None => Ok(order),
            Some(first_line) => {
                self.seen.insert(order_id, first_line);
                Err(Malformed::Duplicate {
                    order_id,
                    first_line,
                })
            }
        }
    }
}

impl<R: Read> Iterator for Orders<R> {
    type Item = (u64, Result<Order, Malformed>);

    fn next(&mut self) -> Option<Self::Item> {
        let begins = self.records.reader().position().line();
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(begins, csv::Position::line);
                return Some((line, Err(Malformed::Unreadable(error.to_string()))));
            }
        };
        let line = record.position().map_or(begins, csv::Position::line);
        let order = order_of(&record).and_then(|order| self.check_new(line, order));
        Some((line, order))
    }
}

fn order_of(record: &csv::StringRecord) -> Result<Order, Malformed> {
    if record.len() != COLUMNS.len() {
        return Err(Malformed::Columns(record.len()));
    }
    let field = |index: usize| record.get(index).unwrap_or_default().trim();
    let value = |index: usize, allowed| Malformed::Value {
        column: COLUMNS[index],
        given: field(index).to_owned(),
        allowed,
    };
    let text = |index: usize| match field(index) {
        "" => Err(value(index, "some text")),
        text => Ok(text.to_owned()),
    };
    let whole = |index: usize| {
        field(index)
            .parse::<i64>()
            .ok()
            .filter(|number| *number > 0)
    };
    let quantity = whole(4).filter(|quantity| *quantity <= 1_000_000);
    Ok(Order {
        order_id: whole(0).ok_or_else(|| value(0, "a whole number above 0"))?,
        ordered_on: date(field(1)).ok_or_else(|| value(1, "a date like 2026-12-01"))?,
        customer: text(2)?,
        item: text(3)?,
        quantity: quantity.ok_or_else(|| value(4, "a whole number from 1 to 1000000"))?,
        unit_price_cents: cents(field(5)).ok_or_else(|| value(5, "an amount like 12.50"))?,
    })
}

/// `YYYY-MM-DD` with a month and a day that exist.
fn date(text: &str) -> Option<String> {
    let parts: Vec<u32> = text
        .split('-')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let &[year, month, day] = parts.as_slice() else {
        return None;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (text.len() == 10 && (1..=days).contains(&day)).then(|| text.to_owned())
}

/// An amount of money with at most two decimals, in cents, below a million.
fn cents(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "00"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || whole.len() > 6 || decimals.len() > 2 {
        return None;
    }
    format!("{whole}{decimals:0<2}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &str) -> Vec<(u64, Result<Order, Malformed>)> {
        let text = format!("{}\n{rows}", COLUMNS.join(","));
        Orders::open(text.as_bytes()).unwrap().collect()
    }

    #[test]
    fn the_shipped_file_has_240_orders_and_no_malformed_line() {
        let shipped = include_str!("orders.csv");
        let orders: Vec<_> = Orders::open(shipped.as_bytes()).unwrap().collect();
        assert_eq!(orders.len(), 240);
        assert!(orders.iter().all(|(_, order)| order.is_ok()));
    }

    #[test]
    fn malformed_lines_are_named_and_their_neighbours_taken() {
        let read = read(
            "1,2026-12-01,A,x,1,2.50\n2,2026-12-01,B\n3,2026-12-01,C,y,1,abc\n\
             1,2026-12-01,D,z,1,1\n5,2026-02-30,E,z,1,1\n6,2026-12-01,F,z,0,1\n7,2026-12-01,G,z,2,1.5\n",
        );
        let said: Vec<_> = read
            .iter()
            .map(|(line, order)| match order {
                Ok(order) => format!(
                    "{line}: {} x {} cents",
                    order.quantity, order.unit_price_cents
                ),
                Err(malformed) => format!("{line}: {malformed}"),
            })
            .collect();
        assert_eq!(
            said,
            [
                "2: 1 x 250 cents",
                "3: has 3 columns instead of 6",
                "4: unit_price is \"abc\"; an amount like 12.50 is allowed",
                "5: order_id 1 stands on line 2 already",
                "6: ordered_on is \"2026-02-30\"; a date like 2026-12-01 is allowed",
                "7: quantity is \"0\"; a whole number from 1 to 1000000 is allowed",
                "8: 2 x 150 cents",
            ]
        );
    }

    #[test]
    fn another_header_is_refused_with_the_right_one() {
        let refused = Orders::open("id,amount\n1,2\n".as_bytes()).err().unwrap();
        assert!(
            refused.contains("it must be order_id,ordered_on"),
            "{refused}"
        );
    }

    #[test]
    fn amounts_are_exact_and_bounded() {
        assert_eq!(cents("0.10"), Some(10));
        assert_eq!(cents("7"), Some(700));
        assert_eq!(cents("999999.99"), Some(99_999_999));
        for text in [
            "", "-1", "1.234", "1,50", ".5", "1.", "1e3", "1000000", "NaN",
        ] {
            assert_eq!(cents(text), None, "{text}");
        }
    }
}
