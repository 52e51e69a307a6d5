//! Records on disk: one file per scenario, because under nextest each scenario is a process of its
//! own.

use std::io;
use std::path::{Path, PathBuf};

use queue_table_core::CONTRACT_VERSION;
use serde::{Deserialize, Serialize};

use crate::fixture::{Capabilities, Profile};
use crate::outcome::Record;

/// Where records are written, instead of `conformance` in the build's target folder.
pub const REPORT_DIR: &str = "QUEUE_TABLE_REPORT_DIR";

/// The file that says what was tried.
pub(crate) const ENGINE_FILE: &str = "engine.json";

/// What came of the random histories, beside it.
pub(crate) const HISTORIES_FILE: &str = "random_histories.json";

/// What was tried, or why it was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// The engine.
    pub engine: String,
    /// The contract's version.
    pub contract: u32,
    /// What came of asking for it.
    #[serde(flatten)]
    pub run: EngineRun,
}

/// Whether an engine was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineRun {
    /// It was.
    Tried {
        /// The server's version.
        version: String,
        /// How to repeat the run.
        reproduce: String,
        /// What the backend declares.
        capabilities: Capabilities,
    },
    /// It was not, for this reason.
    NotRun(String),
}

/// What came of the random histories. Not which: the seed is another in each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Histories {
    /// The server's version.
    pub(crate) version: String,
    /// How many were tried.
    pub(crate) cases: u32,
    /// Whether all went as on the model.
    pub(crate) passed: bool,
}

/// The records of one engine: `<folder>/<engine>/<scenario>.json` and `engine.json` beside them.
///
/// The folder is `QUEUE_TABLE_REPORT_DIR`, else `conformance` in the target folder of the running
/// test.
#[derive(Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// Opens the engine's folder and writes down what is tried.
    pub(crate) fn of(profile: &Profile) -> io::Result<Self> {
        let run = EngineRun::Tried {
            version: profile.version.clone(),
            reproduce: profile.reproduce.clone(),
            capabilities: profile.capabilities,
        };
        Self::open(&profile.engine, run)
    }

    /// Writes down that the engine was not there.
    pub(crate) fn not_run(engine: &str, reason: &str) -> io::Result<()> {
        Self::open(engine, EngineRun::NotRun(reason.to_owned())).map(|_| ())
    }

    fn open(engine: &str, run: EngineRun) -> io::Result<Self> {
        let folder = report_dir()?.join(engine);
        std::fs::create_dir_all(&folder)?;
        let records = Self { folder };
        let record = EngineRecord {
            engine: engine.to_owned(),
            contract: CONTRACT_VERSION,
            run,
        };
        records.put(ENGINE_FILE, &record)?;
        Ok(records)
    }

    /// Writes one scenario's record, in place of an older one.
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        self.put(&format!("{}.json", record.scenario), record)
    }

    /// Writes what came of the random histories.
    pub(crate) fn write_histories(&self, histories: &Histories) -> io::Result<()> {
        self.put(HISTORIES_FILE, histories)
    }

    /// Through a file of this process and a rename: other processes of the same run write here too.
    fn put(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        let draft = self.folder.join(format!(".{name}.{}", std::process::id()));
        std::fs::write(&draft, text + "\n")?;
        std::fs::rename(draft, self.folder.join(name))
    }
}

/// The folder of all engines' records.
///
/// # Errors
/// Those of asking for the program's own path.
pub fn report_dir() -> io::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(REPORT_DIR) {
        return Ok(folder.into());
    }
    let program = std::env::current_exe()?;
    // A test program is <target>/<profile>/deps/<name>, another one <target>/<profile>/<name>.
    let folder = program.parent().unwrap_or(Path::new("."));
    let up = if folder.ends_with("deps") { 2 } else { 1 };
    let target = folder.ancestors().nth(up).unwrap_or(folder);
    Ok(target.join("conformance"))
}
