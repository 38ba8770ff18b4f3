//! Symptoms → checks: what a pasted line or a whole log says, by a table of symptoms. It reads nothing and runs no check.
//!
//! A text goes through three steps: `pieces` cuts it into lines, `clean` takes from a line what is of the moment and of the
//! machine, and `matcher` holds the table against it. Time is linear in the text, and what is kept of it is bounded.

mod clean;
mod literal;
mod matcher;
mod pieces;
mod table;
mod tally;

#[cfg(test)]
mod tests;

pub use matcher::Matcher;
pub use table::{Concept, Rule, Symptom, Table, TableError};
pub use tally::Reading;

/// The table that gdr carries. It is parsed where it is asked for: no other command pays for it.
const SHIPPED: &str = include_str!("../../profiles/symptoms.toml");

/// How much of a text is read.
pub const MOST_BYTES: u64 = 64 << 20;

pub fn shipped() -> Result<Table, TableError> {
    Table::parse(SHIPPED)
}
