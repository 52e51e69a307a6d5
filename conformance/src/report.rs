//! The records of every engine as one document: scenario by engine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use crate::model::ModelFixture;
use crate::outcome::{Outcome, Record, Verdict};
use crate::record::{ENGINE_FILE, EngineRecord, EngineRun, HISTORIES_FILE, Histories};
use crate::scenario::{Rule, Scenario, Tier};
use crate::scenarios::registry;

/// Every scenario's outcome on every engine asked for, as last recorded.
#[derive(Debug)]
pub struct Matrix {
    engines: Vec<Column>,
}

/// One engine of the matrix.
#[derive(Debug)]
struct Column {
    engine: String,
    run: EngineRun,
    /// By scenario. Complete when the engine was tried.
    records: BTreeMap<String, Record>,
    /// `None` when the engine was not tried.
    histories: Option<Histories>,
}

impl Matrix {
    /// Reads the records of these engines from the folder that the test programs wrote them to.
    ///
    /// An engine without records was not run. Records of scenarios that are no longer in the suite
    /// are left out.
    ///
    /// # Errors
    /// Those of reading, and [`io::ErrorKind::InvalidData`] when an engine was tried, but not with
    /// the whole suite on one server.
    pub fn read(folder: &Path, engines: &[String]) -> io::Result<Self> {
        let columns = engines.iter().map(|engine| Column::read(folder, engine));
        Ok(Self {
            engines: columns.collect::<io::Result<_>>()?,
        })
    }

    /// The engines that were not run.
    #[must_use]
    pub fn not_run(&self) -> Vec<&str> {
        let not_run = |column: &&Column| matches!(column.run, EngineRun::NotRun(_));
        let columns = self.engines.iter().filter(not_run);
        columns.map(|column| column.engine.as_str()).collect()
    }

    /// The document. The same records give the same text: it holds neither times nor dates.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = HEAD.to_owned();
        self.render_engines(&mut text);
        self.render_scenarios(&mut text);
        self.render_reasons(&mut text);
        text
    }

    fn render_engines(&self, text: &mut String) {
        text.push_str("\n## Engines\n\n");
        text.push_str("| engine | version | verdict | pass | deviates | unsupported | unverified | fail | random histories | repeat with |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for column in &self.engines {
            text.push_str(&column.summary());
        }
    }

    fn render_scenarios(&self, text: &mut String) {
        let scenarios = registry::<ModelFixture>();
        for tier in Tier::ALL {
            let names: Vec<_> = self.engines.iter().map(|column| &*column.engine).collect();
            line(text, format_args!("\n## {tier}\n"));
            line(
                text,
                format_args!("| scenario | rules | {} |", names.join(" | ")),
            );
            line(
                text,
                format_args!("| --- | --- |{}", " --- |".repeat(names.len())),
            );
            for scenario in scenarios.iter().filter(|scenario| scenario.tier == tier) {
                line(text, format_args!("{}", self.row(scenario)));
            }
        }
    }

    fn row(&self, scenario: &Scenario<ModelFixture>) -> String {
        let rules: Vec<_> = scenario.rules.iter().map(Rule::to_string).collect();
        let cells = self.engines.iter().map(|column| column.cell(scenario.id));
        let cells: Vec<_> = cells.collect();
        let (id, sentence) = (scenario.id, scenario.sentence);
        format!(
            "| `{id}`: {sentence} | {} | {} |",
            rules.join(" "),
            cells.join(" | ")
        )
    }

    fn render_reasons(&self, text: &mut String) {
        text.push_str("\n## Why not pass\n\n| engine | scenario | outcome | why |\n| --- | --- | --- | --- |\n");
        for column in &self.engines {
            for record in column.records.values() {
                if let Some(reason) = reason(&record.outcome) {
                    let (engine, id) = (&column.engine, &record.scenario);
                    let outcome = record.outcome.as_str();
                    line(
                        text,
                        format_args!("| {engine} | `{id}` | {outcome} | {} |", one_line(reason)),
                    );
                }
            }
        }
    }

    /// What in the document is not as these records say. Engines that were not run this time are
    /// left out: their columns cannot be judged here. So are versions: they are those of the run
    /// that wrote the document, and servers are updated without a change of ours.
    #[must_use]
    pub fn differences(&self, document: &str) -> Vec<String> {
        let not_run = self.not_run();
        let (mut found, mut expected) =
            (cells(document, &not_run), cells(&self.render(), &not_run));
        let both: Vec<_> = expected.intersection(&found).cloned().collect();
        for cell in both {
            found.remove(&cell);
            expected.remove(&cell);
        }
        let surplus = found
            .into_iter()
            .map(|cell| format!("only in the document: {cell}"));
        let missing = expected
            .into_iter()
            .map(|cell| format!("missing in the document: {cell}"));
        surplus.chain(missing).collect()
    }
}

impl Column {
    fn read(folder: &Path, engine: &str) -> io::Result<Self> {
        let folder = folder.join(engine);
        let mut column = Self {
            engine: engine.to_owned(),
            run: EngineRun::NotRun("no records".to_owned()),
            records: BTreeMap::new(),
            histories: None,
        };
        let file = folder.join(ENGINE_FILE);
        if file.exists() {
            column.run = serde_json::from_slice::<EngineRecord>(&fs::read(file)?)?.run;
        }
        if let EngineRun::Tried { version, .. } = &column.run {
            for scenario in registry::<ModelFixture>() {
                let record = read_record(&folder, scenario.id, version)?;
                column.records.insert(scenario.id.to_owned(), record);
            }
            let version = version.clone();
            column.histories = Some(read_histories(&folder, &version)?);
        }
        Ok(column)
    }

    fn summary(&self) -> String {
        let engine = &self.engine;
        let (version, reproduce) = match &self.run {
            EngineRun::NotRun(_) => {
                return format!("| {engine} | not run | not run | | | | | | | |\n");
            }
            EngineRun::Tried {
                version, reproduce, ..
            } => (version, reproduce),
        };
        let outcomes = || self.records.values().map(|record| &record.outcome);
        let (histories, went_well) = match &self.histories {
            Some(tried) if tried.passed => (format!("{} as on the model", tried.cases), true),
            Some(tried) => (format!("fail, of {}", tried.cases), false),
            None => ("not run".to_owned(), true),
        };
        let verdict = match Verdict::of(outcomes()) {
            verdict if went_well => verdict,
            _ => Verdict::Nonconformant,
        };
        let count = |word: &str| outcomes().filter(|one| one.as_str() == word).count();
        let counts = ["pass", "deviates", "unsupported", "unverified", "fail"].map(count);
        let counts = counts.map(|count| count.to_string()).join(" | ");
        format!("| {engine} | {version} | {verdict} | {counts} | {histories} | `{reproduce}` |\n")
    }

    fn cell(&self, scenario: &str) -> &'static str {
        let record = self.records.get(scenario);
        record.map_or("not run", |record| record.outcome.as_str())
    }
}

fn incomplete(file: &Path, why: &str) -> io::Error {
    let text = format!("{}: {why}; run the whole suite again", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn read_histories(folder: &Path, version: &str) -> io::Result<Histories> {
    let file = folder.join(HISTORIES_FILE);
    let bytes = fs::read(&file).map_err(|error| incomplete(&file, &error.to_string()))?;
    let histories: Histories = serde_json::from_slice(&bytes)?;
    if histories.version != version {
        return Err(incomplete(&file, OTHER_VERSION));
    }
    Ok(histories)
}

fn read_record(folder: &Path, scenario: &str, version: &str) -> io::Result<Record> {
    let file = folder.join(format!("{scenario}.json"));
    let bytes = fs::read(&file).map_err(|error| incomplete(&file, &error.to_string()))?;
    let record: Record = serde_json::from_slice(&bytes)?;
    if record.version != version {
        return Err(incomplete(&file, OTHER_VERSION));
    }
    Ok(record)
}

fn reason(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Pass => None,
        Outcome::Fail { text } => Some(text),
        Outcome::Deviates { reason }
        | Outcome::Unsupported { reason }
        | Outcome::Unverified { reason } => Some(reason),
    }
}

/// A text as a table's cell.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

const OTHER_VERSION: &str = "recorded on another version of the server";

/// The column of server versions, which is not judged.
const VERSION: &str = "version";

/// The cells of a document's tables, each with its row's and its column's name, without those of
/// some engines.
fn cells(document: &str, without: &[&str]) -> std::collections::BTreeSet<String> {
    let mut cells = std::collections::BTreeSet::new();
    let mut header: Vec<&str> = Vec::new();
    for line in document.lines() {
        let Some(row) = line
            .strip_prefix("| ")
            .map(|row| row.trim_end_matches(" |"))
        else {
            header.clear();
            continue;
        };
        let row: Vec<_> = row.split(" | ").map(str::trim).collect();
        if header.is_empty() {
            header = row;
        } else if !without.contains(&row[0]) && row[0] != "---" {
            let named = header.iter().zip(&row).skip(1);
            let judged =
                named.filter(|(column, _)| !without.contains(column) && **column != VERSION);
            cells.extend(judged.map(|(column, cell)| format!("{} / {column}: {cell}", row[0])));
        }
    }
    cells
}

const HEAD: &str = "# Conformance

What each backend keeps of the contract (`core/CONTRACT.md`), scenario by scenario, as the suite found it on a running
server. Generated from the suite's records by `queue-table-conformance-report`; with `--check` it fails when this
document is stale.

- pass: the backend keeps it. fail: it does not.
- deviates: declared as failing with a reason, tried all the same, and it failed.
- unsupported: for backends that declare another capability, such as row locks; most have a twin for those that do not.
- unverified: not tried, because this server does not honour what the scenario relies on.
- Verdict: conformant when everything passed or is unsupported, partial when something deviates or is unverified,
  nonconformant when something failed.
- Random histories: the same operations on the suite's model and on the engine, with the same answers and rows after
  each step. Others in each run.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Capabilities;

    fn column(engine: &str, outcome: &Outcome) -> Column {
        let record = |scenario: Scenario<ModelFixture>| Record {
            scenario: scenario.id.to_owned(),
            sentence: scenario.sentence.to_owned(),
            tier: scenario.tier,
            rules: scenario.rules.to_vec(),
            engine: engine.to_owned(),
            version: "1".to_owned(),
            outcome: outcome.clone(),
        };
        let records = registry().into_iter().map(record);
        Column {
            engine: engine.to_owned(),
            run: EngineRun::Tried {
                version: "1".to_owned(),
                reproduce: "cargo test".to_owned(),
                capabilities: Capabilities::default(),
            },
            records: records.map(|one| (one.scenario.clone(), one)).collect(),
            histories: Some(Histories {
                version: "1".to_owned(),
                cases: 16,
                passed: true,
            }),
        }
    }

    fn not_run(engine: &str) -> Column {
        Column {
            engine: engine.to_owned(),
            run: EngineRun::NotRun("no URL".to_owned()),
            records: BTreeMap::new(),
            histories: None,
        }
    }

    #[test]
    fn a_document_of_the_same_records_has_no_differences() {
        let matrix = Matrix {
            engines: vec![column("a", &Outcome::Pass), not_run("b")],
        };
        assert_eq!(matrix.differences(&matrix.render()), Vec::<String>::new());
        assert!(matrix.render().contains("| b | not run | not run |"));
    }

    #[test]
    fn a_document_is_not_judged_by_an_engine_that_was_not_run() {
        let both = [column("a", &Outcome::Pass), column("b", &Outcome::Pass)];
        let document = Matrix {
            engines: both.into(),
        }
        .render();
        let now = Matrix {
            engines: vec![column("a", &Outcome::Pass), not_run("b")],
        };
        assert_eq!(now.differences(&document), Vec::<String>::new());
    }

    #[test]
    fn another_version_of_a_server_is_no_difference() {
        let matrix = Matrix {
            engines: vec![column("a", &Outcome::Pass)],
        };
        let EngineRun::Tried { version, .. } = &matrix.engines[0].run else {
            panic!("the column was tried");
        };
        let document = matrix
            .render()
            .replace(&format!("| a | {version} |"), "| a | 0.0.1 |");
        assert_ne!(document, matrix.render());
        assert_eq!(matrix.differences(&document), Vec::<String>::new());
    }

    #[test]
    fn a_history_that_went_another_way_makes_a_backend_nonconformant() {
        let mut column = column("a", &Outcome::Pass);
        assert!(column.summary().contains("16 as on the model"));
        if let Some(histories) = &mut column.histories {
            histories.passed = false;
        }
        assert!(column.summary().contains("nonconformant"));
    }

    #[test]
    fn another_outcome_is_a_difference() {
        let of = |outcome: &Outcome| Matrix {
            engines: vec![column("a", outcome)],
        };
        let text = "why | not".to_owned();
        let differences = of(&Outcome::Fail { text }).differences(&of(&Outcome::Pass).render());
        assert!(differences.iter().any(|one| one.contains("nonconformant")));
        assert!(differences.iter().any(|one| one.contains(": fail")));
    }
}
