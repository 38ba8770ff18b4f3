//! The format of `profiles/symptoms.toml`, symptoms and concepts, and the hints of the checks.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::check;

/// The table, with words expanded in the patterns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Parts of patterns that several symptoms use.
    words: BTreeMap<String, String>,
    #[serde(rename = "symptom")]
    pub symptoms: Vec<Symptom>,
    /// Failures that gdr has no check for.
    #[serde(default)]
    pub uncovered: Vec<UncoveredFailure>,
    #[serde(rename = "concept")]
    pub concepts: Vec<Concept>,
    /// Of the checks, in their order.
    #[serde(skip)]
    pub hints: Vec<Hint>,
}

/// A message that users paste, and its cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symptom {
    pub name: String,
    /// Patterns, any of which matches.
    #[serde(rename = "match", default)]
    pub patterns: Vec<String>,
    /// Patterns of settings and of what people write; a long log has such words without a fault, so they match in short texts only.
    #[serde(default)]
    pub prose: Vec<String>,
    /// Patterns, any of which cancels the match.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Confidence in the cause, 1 to 100.
    #[serde(default = "usual_score")]
    pub score: u8,
    pub cause: String,
    /// The checks that verify the cause, best first.
    pub checks: Vec<String>,
    /// Public threads and documents.
    pub sources: Vec<String>,
    /// An example line.
    pub example: String,
}

/// A failure that gdr has no check for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncoveredFailure {
    pub name: String,
    /// Patterns, any of which matches.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
    /// What it is and where to look, as sentences.
    pub subject: String,
    /// An example line.
    pub example: String,
}

/// What a text is about, or what went wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concept {
    /// Its name in hints.
    pub name: String,
    /// It says that something went wrong.
    #[serde(default)]
    pub outcome: bool,
    /// It says that the text is about GPUs or RDMA.
    #[serde(default)]
    pub domain: bool,
    /// Patterns, any of which matches.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
    /// Patterns, any of which cancels the match.
    #[serde(default)]
    pub unless: Vec<String>,
}

/// What the concepts of a question say about one check.
#[derive(Debug, Clone)]
pub struct Hint {
    pub check: &'static str,
    /// What the check finds if it fails.
    pub cause: &'static str,
    /// Points for each concept that occurs.
    pub words: BTreeMap<&'static str, i8>,
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("invalid table of symptoms")]
    Text(#[from] toml::de::Error),
    #[error("'{name}': unknown word <{word}>")]
    Word {
        /// The symptom or concept.
        name: String,
        word: String,
    },
    #[error("hint of '{check}': '{concept}' is not a concept with a number")]
    Concept { check: &'static str, concept: &'static str },
    /// A pattern is not a regular expression, or its matches contain no common literal.
    #[error("'{name}': invalid pattern '{pattern}': not a regular expression with a literal")]
    Literal { name: String, pattern: String },
    #[error("invalid pattern for message prefixes")]
    Cleaner(#[from] regex::Error),
    /// The literals exceed the automaton's limits.
    #[error("the table of symptoms is too large")]
    Size(#[from] aho_corasick::BuildError),
}

fn usual_score() -> u8 {
    80
}

impl Table {
    /// Parses a table and expands words in its patterns.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut table: Self = toml::from_str(text)?;
        let words = std::mem::take(&mut table.words);
        for symptom in &mut table.symptoms {
            let patterns = symptom.patterns.iter_mut().chain(&mut symptom.prose);
            for pattern in patterns.chain(&mut symptom.unless) {
                *pattern = spelt(&symptom.name, pattern, &words)?;
            }
        }
        for failure in &mut table.uncovered {
            for pattern in &mut failure.patterns {
                *pattern = spelt(&failure.name, pattern, &words)?;
            }
        }
        for concept in &mut table.concepts {
            for pattern in concept.patterns.iter_mut().chain(&mut concept.unless) {
                *pattern = spelt(&concept.name, pattern, &words)?;
            }
        }
        Ok(table)
    }

    /// The table with the hints of the checks.
    pub fn with_hints(mut self) -> Result<Self, TableError> {
        let hints = check::all().filter_map(|check| Some((check.id, check.hint?)));
        self.hints = hints.map(|(id, hint)| self.hint(id, hint)).collect::<Result<_, _>>()?;
        Ok(self)
    }

    fn hint(&self, check: &'static str, hint: check::Hint) -> Result<Hint, TableError> {
        let mut words = BTreeMap::new();
        for (concept, points) in hint.points() {
            let is_known = self.concepts.iter().any(|known| known.name == concept);
            match points.filter(|_| is_known) {
                Some(points) => words.insert(concept, points),
                None => return Err(TableError::Concept { check, concept }),
            };
        }
        Ok(Hint { check, cause: hint.cause, words })
    }
}

/// Replaces each `<word>` of a pattern; other text in angle brackets is kept.
fn spelt(
    name: &str,
    pattern: &str,
    words: &BTreeMap<String, String>,
) -> Result<String, TableError> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(start) = rest.find('<') {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let word = from[1..].split('>').next().unwrap_or_default();
        let is_word = !word.is_empty()
            && from.len() > word.len() + 1
            && word.bytes().all(|b| b.is_ascii_lowercase());
        // `(?P<name>` in a regular expression and `<` in a log are not words.
        if !is_word || before.ends_with("(?P") {
            out.push('<');
            rest = &from[1..];
            continue;
        }
        match words.get(word) {
            Some(spelling) => out.push_str(spelling),
            None => {
                return Err(TableError::Word { name: name.to_owned(), word: word.to_owned() });
            }
        }
        rest = &from[word.len() + 2..];
    }
    out.push_str(rest);
    Ok(out)
}
