//! The handler's work: one invoice file per job, written so that a second run leaves the same file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use queue_table::{Job, JobId};
use serde::{Deserialize, Serialize};

use crate::orders::Order;

/// The payload: everything that stands on the invoice.
#[derive(Serialize, Deserialize)]
pub(crate) struct WriteInvoice {
    order_id: i64,
    ordered_on: String,
    customer: String,
    item: String,
    quantity: i64,
    unit_price_cents: i64,
}

impl Job for WriteInvoice {
    const KIND: &'static str = "invoice.write";
}

impl From<&Order> for WriteInvoice {
    fn from(order: &Order) -> Self {
        Self {
            order_id: order.order_id,
            ordered_on: order.ordered_on.clone(),
            customer: order.customer.clone(),
            item: order.item.clone(),
            quantity: order.quantity,
            unit_price_cents: order.unit_price_cents,
        }
    }
}

impl WriteInvoice {
    /// The same job gives the same text, whichever attempt writes it: no date of today, no attempt.
    fn text(&self, job: JobId) -> String {
        format!(
            "INVOICE {job}\n\norder {}, {}\n{}\n\n{} x {} at {}\ntotal {}\n",
            self.order_id,
            self.ordered_on,
            self.customer,
            self.quantity,
            self.item,
            euro(self.unit_price_cents),
            euro(self.unit_price_cents * self.quantity),
        )
    }

    /// Writes the invoice and moves it into place in one step: a reader never sees half of one.
    ///
    /// The file is named after the job and not after the attempt, so a replacement overwrites the
    /// same file.
    pub(crate) fn write(
        &self,
        directory: &Path,
        job: JobId,
        attempt: u32,
    ) -> std::io::Result<PathBuf> {
        let (path, draft) = paths(directory, job, attempt);
        let mut file = fs::File::create(&draft)?;
        file.write_all(self.text(job).as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }

    /// What a worker leaves that dies in the middle: half a draft, and no invoice.
    pub(crate) fn write_half(
        &self,
        directory: &Path,
        job: JobId,
        attempt: u32,
    ) -> std::io::Result<()> {
        let text = self.text(job);
        fs::write(
            paths(directory, job, attempt).1,
            &text.as_bytes()[..text.len() / 2],
        )
    }
}

fn paths(directory: &Path, job: JobId, attempt: u32) -> (PathBuf, PathBuf) {
    let name = format!("invoice-{job}.txt");
    (
        directory.join(&name),
        directory.join(format!(".{name}.attempt-{attempt}")),
    )
}

fn euro(cents: i64) -> String {
    format!("EUR {}.{:02}", cents / 100, cents % 100)
}

/// Removes the drafts that dead attempts left, and counts the invoices.
pub(crate) fn tidy(directory: &Path) -> std::io::Result<usize> {
    let mut invoices = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".invoice-") {
            fs::remove_file(entry.path())?;
        } else if name.starts_with("invoice-") {
            invoices += 1;
        }
    }
    Ok(invoices)
}
