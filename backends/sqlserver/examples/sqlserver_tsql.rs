//! Writes every migration and statement into a folder, for a parser, a reviewer, or a migration
//! tool.
//!
//! `cargo run -p queue-table-sqlserver --example sqlserver_tsql -- target/tsql`

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use queue_table_core::{ColumnType, Table};
use queue_table_sqlserver::{Statements, migrations, session_settings};

/// A table with a column of each type, so that every substitution is in what is written.
fn table() -> Result<Table, queue_table_core::Invalid> {
    Table::named("job")?
        .in_schema("dbo")?
        .with_column("order_id", ColumnType::Integer)?
        .with_column("tenant", ColumnType::Text)?
        .with_column("trace_id", ColumnType::Uuid)
}

/// The user's own migration adds the columns; a schema model takes no ALTER TABLE, so they are put
/// into CREATE TABLE.
fn with_business_columns(text: &str) -> String {
    let last = "last_error NVARCHAR(MAX) NULL,\n";
    let columns = "  order_id BIGINT NULL,\n  tenant NVARCHAR(100) NULL,\n  trace_id UNIQUEIDENTIFIER NULL,\n";
    text.replacen(last, &format!("{last}{columns}"), 1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: tsql FOLDER")?;
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let table = table()?;
    for (file, text) in migrations(&table) {
        fs::write(folder.join(file), with_business_columns(&text))?;
    }
    let session = session_settings(Duration::from_secs(10));
    fs::write(folder.join("session.sql"), session)?;
    for (name, text) in Statements::new(&table).all() {
        fs::write(folder.join(format!("{name}.sql")), text)?;
    }
    Ok(())
}
