//! Finds known symptoms in a pasted line or a log. Reads nothing and runs no check.
//!
//! `pieces` splits the text into lines, `clean` removes what varies, `matcher` applies the table, `tally` ranks the checks.
//! `listing` knows texts that list a machine, `settings` the environment variables that a text shows,
//! `notices` lines that report no failure, `general` questions without one, `words` whether a person reports one, `subject` whether a text is about GPUs or RDMA at all.
//! Linear in the text, with bounded memory.

mod clean;
mod general;
mod listing;
mod literal;
mod matcher;
mod notices;
mod patterns;
mod pieces;
mod settings;
mod subject;
mod table;
mod tally;
mod words;

#[cfg(test)]
mod tests;

pub use matcher::Matcher;
pub use patterns::literals_to_generate;
pub use pieces::count_lines;
pub use settings::Setting;
pub use table::{Concept, Hint, Symptom, Table, TableError};
pub use tally::Reading;

/// The built-in table, parsed on demand because no other command needs it.
const SHIPPED: &str = include_str!("../../profiles/symptoms.toml");

/// Limit of the text.
pub const MAX_BYTES: u64 = 64 << 20;

pub fn shipped() -> Result<Table, TableError> {
    Table::parse(SHIPPED)?.with_hints()
}
