//! The action that each check prescribes if it fails. A finding may prescribe another one.

use super::registry::{Check, FAMILIES};
use crate::model::{ActionClass, RequiredAction};

/// What to do if a check fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CheckAction {
    pub class: ActionClass,
    /// What to do after it: the reboot with which a change takes effect, else what to do if it does not help.
    pub then: Option<ActionClass>,
    /// True if no job may run on the node meanwhile.
    pub drain: bool,
    /// Where that is written: a URL, or a document by title.
    pub source: &'static str,
}

/// Actions of checks: with the node drained, or while jobs run.
impl ActionClass {
    pub const fn drained(self, source: &'static str) -> CheckAction {
        CheckAction { class: self, then: None, drain: true, source }
    }

    pub const fn running(self, source: &'static str) -> CheckAction {
        CheckAction { class: self, then: None, drain: false, source }
    }
}

impl CheckAction {
    /// What to do after it.
    pub const fn then(self, then: ActionClass) -> Self {
        Self { then: Some(then), ..self }
    }

    /// The action of a finding: `gdr fix` where gdr has a fix for it.
    pub fn required(self, has_fix: bool) -> RequiredAction {
        RequiredAction {
            class: if has_fix { ActionClass::Fix } else { self.class },
            then: self.then,
            drain: self.drain,
            source: self.source.to_owned(),
        }
    }
}

/// A check without an action, whose source is empty by default, does not compile.
const _: () = {
    let mut family = 0;
    while family < FAMILIES.len() {
        let checks: &[Check] = FAMILIES[family].checks;
        let mut at = 0;
        while at < checks.len() {
            assert!(!checks[at].action.source.is_empty(), "a check needs an `action`");
            at += 1;
        }
        family += 1;
    }
};
