//! What is known of one thing, and where it is not known, why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One fact: its value, or the reason why it could not be had.
///
/// "It is not there" is a value (`Known(None)`), and only where the containing directory was read.
/// A check on an unknown fact is `unknown`, never a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value, as the source gave it.
    Known(T),
    /// Not known, for this reason.
    Unknown(Why),
}

/// Why a fact is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Not available from this source: not recorded, not queried, or the source is too old.
    NotCovered,
    /// Permission was refused.
    Denied,
    /// The source answered something that cannot be read.
    Broken,
    /// The source did not answer in time.
    TimedOut,
}

impl<T> Fact<T> {
    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// The reason, where the value is not known.
    pub fn why(&self) -> Option<Why> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(why) => Some(*why),
        }
    }

    /// The same fact by reference.
    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Known(value) => Fact::Known(value),
            Self::Unknown(why) => Fact::Unknown(*why),
        }
    }

    /// A fact about the value, unknown for the same reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(f(value)),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }

    /// A fact that follows from the value and may itself be unknown.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => f(value),
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }
}

impl<T> Fact<Option<T>> {
    /// The value, where it is known and there is one.
    pub fn present(&self) -> Option<&T> {
        self.known().and_then(Option::as_ref)
    }

    /// Whether it is known that there is none.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Known(None))
    }
}

impl<T> Default for Fact<T> {
    /// A fact nobody asked for.
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
}
