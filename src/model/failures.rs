//! What could not be had of one path. Nearly every path of a snapshot has one failure or none, and there may be two hundred
//! thousand paths: so it is a short list, though it is written as a map.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Failure, Question};

/// Failures by what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures(Vec<(Question, Failure)>);

impl Failures {
    /// Whether all was had.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why a question was not answered.
    pub fn get(&self, asked: Question) -> Option<&Failure> {
        let found = self.0.iter().find(|(question, _)| *question == asked);
        found.map(|(_, failure)| failure)
    }

    /// Notes down why a question was not answered; the last time counts.
    pub fn insert(&mut self, asked: Question, failure: Failure) {
        match self
            .0
            .binary_search_by_key(&asked, |(question, _)| *question)
        {
            Ok(at) => self.0[at].1 = failure,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (asked, failure));
            }
        }
    }

    /// The failures, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Failure> {
        self.0.iter_mut().map(|(_, failure)| failure)
    }
}

impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(question, failure)| (question, failure)))
    }
}

impl<'de> Deserialize<'de> for Failures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut failures = Self::default();
        for (asked, failure) in BTreeMap::deserialize(deserializer)? {
            failures.insert(asked, failure);
        }
        Ok(failures)
    }
}

impl JsonSchema for Failures {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Failures".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <BTreeMap<Question, Failure>>::json_schema(generator)
    }
}
