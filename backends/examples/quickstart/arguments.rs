//! The command line.

use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Turns a CSV of orders into invoices, with a queue in one SQLite file.

usage: cargo run --example quickstart [-- [ORDERS.csv | -] [--database FILE] [--invoices DIR]]

  ORDERS.csv       orders to read; - for standard input; the file shipped with the example if left out
                   columns: order_id,ordered_on,customer,item,quantity,unit_price
  --database FILE  the service's database, made if there is none  (target/quickstart/shop.db)
  --invoices DIR   where the invoices go                           (target/quickstart/invoices)

Each order and its invoice job are stored in one transaction. One worker dies in the middle of a job;
four others finish the work. Running it again on the same database adds nothing twice.";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) orders: Source,
    pub(crate) database: PathBuf,
    pub(crate) invoices: PathBuf,
    /// Set for the child process that claims a job and dies with it.
    pub(crate) doomed: bool,
}

/// Where the orders come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Shipped,
    Stdin,
    File(PathBuf),
}

/// The flag that turns a process into the worker that dies.
pub(crate) const DOOMED: &str = "--die-holding-a-claim";

impl Arguments {
    /// `Ok(None)` when help was asked for.
    pub(crate) fn parse(given: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            orders: Source::Shipped,
            database: "target/quickstart/shop.db".into(),
            invoices: "target/quickstart/invoices".into(),
            doomed: false,
        };
        let mut given = given.into_iter();
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--database" => parsed.database = value()?.into(),
                "--invoices" => parsed.invoices = value()?.into(),
                DOOMED => parsed.doomed = true,
                "-" => parsed.orders = Source::Stdin,
                other if other.starts_with('-') => return Err(format!("{other} is no option")),
                _ if parsed.orders != Source::Shipped => {
                    return Err(format!(
                        "one file of orders is enough: {argument} is a second"
                    ));
                }
                _ => parsed.orders = Source::File(argument.into()),
            }
        }
        Ok(Some(parsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<Option<Arguments>, String> {
        Arguments::parse(given.iter().map(ToString::to_string))
    }

    #[test]
    fn a_path_a_dash_or_nothing_names_the_orders() {
        let orders = |given: &[&str]| parse(given).unwrap().unwrap().orders;
        assert_eq!(orders(&[]), Source::Shipped);
        assert_eq!(orders(&["-"]), Source::Stdin);
        assert_eq!(orders(&["my.csv"]), Source::File("my.csv".into()));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        assert_eq!(
            parse(&["--databse", "x"]).unwrap_err(),
            "--databse is no option"
        );
        assert_eq!(
            parse(&["--database"]).unwrap_err(),
            "--database needs a value"
        );
        assert!(
            parse(&["a.csv", "b.csv"])
                .unwrap_err()
                .contains("b.csv is a second")
        );
        assert_eq!(parse(&["--help"]), Ok(None));
    }
}
