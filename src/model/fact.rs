//! A value that gdr read, or the reason why it is unknown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Area, Missing};

/// One fact: its value, or the reason why it could not be read.
///
/// "It does not exist" is a value (`Known(None)`), and only if the containing directory was read. A check that needs
/// an unknown fact is `unknown`, never a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value, as the source gave it.
    Known(T),
    /// Unknown, for this reason.
    Unknown(Why),
}

/// Why a fact is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Not available from this source: not recorded, not queried, or the source is too old.
    NotCovered,
    /// Permission was denied.
    Denied,
    /// The answer of the source could not be parsed.
    Broken,
    /// The source did not answer in time.
    TimedOut,
}

impl<T> Fact<T> {
    /// The value, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// The reason, if unknown.
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(why) => Some(*why),
        }
    }

    /// The value, or what is missing.
    pub fn or_missing(&self, area: Area, source: &str) -> Result<&T, Missing> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(why) => Err(Missing::new(*why, area, source)),
        }
    }

    /// Borrows the value.
    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Known(value) => Fact::Known(value),
            Self::Unknown(why) => Fact::Unknown(*why),
        }
    }

    /// Converts the value; the reason stays.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(f(value)),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }

    /// Converts the value to another fact; the reason stays.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => f(value),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }
}

impl<T> Fact<Option<T>> {
    /// The value, if known and present.
    pub fn present(&self) -> Option<&T> {
        self.known().and_then(Option::as_ref)
    }

    /// True if it is known not to exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Known(None))
    }
}

impl<T> Default for Fact<T> {
    /// A fact that was not queried.
    fn default() -> Self {
        Self::Unknown(Why::NotCovered)
    }
}

impl Why {
    /// The reason in a few words, for a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::NotCovered => "not available",
            Self::Denied => "permission denied",
            Self::Broken => "unreadable",
            Self::TimedOut => "no answer in time",
        }
    }

    /// Why the fact from this source is unknown, as a sentence.
    pub fn sentence(self, source: &str) -> String {
        match self {
            Self::NotCovered => format!("{source} is not available"),
            Self::Denied => format!("cannot read {source}: permission denied"),
            Self::Broken => format!("cannot parse {source}"),
            Self::TimedOut => format!("{source} did not answer in time"),
        }
    }
}
