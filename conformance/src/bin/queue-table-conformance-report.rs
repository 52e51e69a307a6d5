//! Merges the suite's records into one document, or checks that the document is as they say.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use queue_table_conformance::{Matrix, report_dir};

const USAGE: &str = "\
usage: queue-table-conformance-report [--check] [--records FOLDER] FILE ENGINE ...

  FILE              the document to write, such as backends/CONFORMANCE.md
  ENGINE            the columns, in this order, as the fixtures name their engines
  --check           write nothing; fail when the document is stale (engines not run are left out)
  --records FOLDER  where the records are (QUEUE_TABLE_REPORT_DIR, else conformance in the target folder)
";

struct Arguments {
    check: bool,
    records: Option<PathBuf>,
    file: PathBuf,
    engines: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("queue-table-conformance-report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut given: impl Iterator<Item = String>) -> Option<Arguments> {
    let (mut check, mut records, mut rest) = (false, None, Vec::new());
    while let Some(word) = given.next() {
        match &*word {
            "--check" => check = true,
            "--records" => records = Some(given.next()?.into()),
            option if option.starts_with('-') => return None,
            _ => rest.push(word),
        }
    }
    let engines = rest.split_off(1.min(rest.len()));
    let file = rest.pop()?.into();
    (!engines.is_empty()).then_some(Arguments {
        check,
        records,
        file,
        engines,
    })
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let records = arguments.records.clone().map_or_else(report_dir, Ok)?;
    let matrix = Matrix::read(&records, &arguments.engines)?;
    if arguments.check {
        return check(&matrix, &arguments.file);
    }
    std::fs::write(&arguments.file, matrix.render())?;
    Ok(())
}

fn check(matrix: &Matrix, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let differences = matrix.differences(&std::fs::read_to_string(file)?);
    let required = std::env::var("QUEUE_TABLE_REQUIRE").unwrap_or_default();
    for engine in matrix.not_run() {
        if required.split(',').any(|name| name.trim() == engine) {
            return Err(format!("{engine} is required, and there are no records of it").into());
        }
        eprintln!("{engine}: not run, so its column is not checked");
    }
    if differences.is_empty() {
        return Ok(());
    }
    let list = differences.join("\n  ");
    Err(format!("{} is stale:\n  {list}", file.display()).into())
}
