//! Read failures of one path. A snapshot may have 200,000 paths, most with at most one failure: a short list saves
//! memory. It serializes as a map.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Failure, Question};

/// Failures by operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures(Vec<(Question, Failure)>);

impl Failures {
    /// True if nothing failed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The failure of an operation.
    pub fn get(&self, question: Question) -> Option<&Failure> {
        let entry = self.0.iter().find(|(other, _)| *other == question);
        entry.map(|(_, failure)| failure)
    }

    /// Records the failure of an operation; the last one counts.
    pub fn insert(&mut self, question: Question, failure: Failure) {
        match self.0.binary_search_by_key(&question, |(other, _)| *other) {
            Ok(at) => self.0[at].1 = failure,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (question, failure));
            }
        }
    }

    /// The failures, mutable.
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
        for (question, failure) in BTreeMap::deserialize(deserializer)? {
            failures.insert(question, failure);
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
