//! What a text says beside the lines of its job.

/// What the rest of a text says about its job.
#[derive(Debug, Default)]
pub struct Around<'a> {
    /// A symptom explains the text: a failure without more of a log is then a quotation of it.
    pub is_explained: bool,
    pub settings: &'a [Shown],
}

/// A variable that the text shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub name: String,
    pub value: String,
    /// From 1.
    pub line: u64,
}
