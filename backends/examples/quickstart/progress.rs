//! Progress: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};

/// Shows how far one piece of long work has come.
pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    shown_percent: Option<u64>,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            terminal: std::io::stderr().is_terminal(),
            shown_percent: None,
        }
    }

    /// `total` is `None` while nobody knows it, as for standard input.
    pub(crate) fn show(&mut self, done: u64, total: Option<u64>) {
        let percent = total.map(|total| done.min(total) * 100 / total.max(1));
        match percent {
            Some(percent) if self.shown_percent == Some(percent) => return,
            // Without a terminal every fifth of the way is a line; without a total, every 10,000th.
            Some(percent) if !self.terminal && (percent == 0 || !percent.is_multiple_of(20)) => {
                return;
            }
            None if !done.is_multiple_of(if self.terminal { 100 } else { 10_000 }) => return,
            _ => self.shown_percent = percent,
        }
        let text = match (total, percent) {
            (Some(total), Some(percent)) => format!("{done} of {total} ({percent} %)"),
            _ => done.to_string(),
        };
        self.write(percent, &text);
    }

    /// Ends the bar's line.
    pub(crate) fn finish(self) {
        if self.terminal && self.shown_percent.is_some() {
            let _written = writeln!(std::io::stderr());
        }
    }

    /// Progress that cannot be shown is no reason to stop the work.
    fn write(&self, percent: Option<u64>, text: &str) {
        let mut to = std::io::stderr();
        let _written = match (self.terminal, percent) {
            (true, Some(percent)) => {
                let full = usize::try_from(percent * 30 / 100).unwrap_or(0);
                write!(to, "\r{:<10} [{:<30}] {text} ", self.what, "#".repeat(full))
            }
            (true, None) => write!(to, "\r{:<10} {text} ", self.what),
            (false, _) => writeln!(to, "{}: {text}", self.what),
        };
        let _flushed = to.flush();
    }
}
