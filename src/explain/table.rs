//! `profiles/symptoms.toml` → symptoms, concepts and rules. It knows the file's form, and no text it is held against.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The table, with the words put into the patterns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Parts of patterns that several symptoms use.
    words: BTreeMap<String, String>,
    #[serde(rename = "symptom")]
    pub symptoms: Vec<Symptom>,
    /// What a text speaks of.
    #[serde(rename = "concept")]
    pub concepts: Vec<Concept>,
    /// What concepts mean together.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

/// What people paste, and what causes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symptom {
    pub name: String,
    /// Patterns of which any is enough.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
    /// Patterns of which any takes the match back.
    #[serde(default)]
    pub unless: Vec<String>,
    /// How surely a match means this cause: 1 to 100.
    #[serde(default = "usual_score")]
    pub score: u8,
    /// The cause, in a sentence.
    pub cause: String,
    /// The checks that tell, best first.
    pub checks: Vec<String>,
    /// Public threads and documents.
    pub sources: Vec<String>,
    /// The line as users paste it.
    pub example: String,
}

/// What a text speaks of.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concept {
    /// Its name, for rules.
    pub name: String,
    /// Patterns of which any is enough.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
}

/// Concepts that together mean a cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub name: String,
    /// The concepts that must all be there.
    pub all: Vec<String>,
    /// The concepts of which none may be there.
    #[serde(default)]
    pub none: Vec<String>,
    /// The concepts may stand on neighbouring lines.
    #[serde(default)]
    pub across: bool,
    /// How surely it means this cause: 1 to 100.
    pub score: u8,
    /// The cause, in a sentence.
    pub cause: String,
    /// The checks that tell, best first.
    pub checks: Vec<String>,
    /// Public threads and documents.
    pub sources: Vec<String>,
    /// A line that it is for.
    pub example: String,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The text is no table.
    #[error("the table of symptoms is not one that gdr can use")]
    Text(#[from] toml::de::Error),
    /// A pattern names a word that is not there.
    #[error("'{name}': there is no word <{word}>")]
    Word {
        /// The symptom or concept.
        name: String,
        word: String,
    },
    /// A rule names a concept that is not there.
    #[error("rule '{rule}': there is no concept '{concept}'")]
    Concept { rule: String, concept: String },
    /// A pattern has no literal that each of its matches holds, or is no regular expression.
    #[error("'{name}': '{pattern}' is no regular expression with a word in it")]
    Literal {
        /// The symptom or concept.
        name: String,
        pattern: String,
    },
    /// What lines are cleaned with cannot be compiled.
    #[error("the patterns of what stands before a message cannot be used")]
    Cleaner(#[from] regex::Error),
    /// The literals are more than an automaton can hold.
    #[error("the table of symptoms is too large")]
    Size(#[from] aho_corasick::BuildError),
}

fn usual_score() -> u8 {
    80
}

impl Table {
    /// Reads a table and puts the words into its patterns.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut table: Self = toml::from_str(text)?;
        let words = std::mem::take(&mut table.words);
        for symptom in &mut table.symptoms {
            for pattern in symptom.patterns.iter_mut().chain(&mut symptom.unless) {
                *pattern = spelt(&symptom.name, pattern, &words)?;
            }
        }
        for concept in &mut table.concepts {
            for pattern in &mut concept.patterns {
                *pattern = spelt(&concept.name, pattern, &words)?;
            }
        }
        for rule in &table.rules {
            for concept in rule.all.iter().chain(&rule.none) {
                if !table.concepts.iter().any(|there| there.name == *concept) {
                    return Err(TableError::Concept {
                        rule: rule.name.clone(),
                        concept: concept.clone(),
                    });
                }
            }
        }
        Ok(table)
    }
}

/// A pattern whose `<word>`s are replaced. What stands in angle brackets otherwise is left alone.
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
        // `(?P<name>` of a regular expression is no word, nor is a `<` of a log.
        if !is_word || before.ends_with("(?P") {
            out.push('<');
            rest = &from[1..];
            continue;
        }
        match words.get(word) {
            Some(spelling) => out.push_str(spelling),
            None => {
                return Err(TableError::Word {
                    name: name.to_owned(),
                    word: word.to_owned(),
                });
            }
        }
        rest = &from[word.len() + 2..];
    }
    out.push_str(rest);
    Ok(out)
}
