//! Machine of a SIMULATED library: a JSON file named by an environment variable. Each library
//! defines its own values. Common to all are `gpus`, with `gpu` for shared values, and injected
//! failures:
//!
//! - `"errors": {"FUNCTION": 15}`: a function returns that code at every call;
//! - `"errors_after": {"FUNCTION": {"calls": 4, "code": 700, "sticky": true}}`: only its fifth call
//!   in this process returns it; the library defines further effects of a sticky failure;
//! - `"hang_in": "FUNCTION"`: a function sleeps for ever.
//!
//! In an element of `gpus`, these apply to the calls that concern that GPU, as defined by the
//! library.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// Machine file; dereferences to its JSON object.
#[derive(Debug)]
pub struct Machine {
    value: Value,
    /// Number of calls of each function, in total and per GPU.
    calls: Mutex<BTreeMap<(Option<usize>, String), u64>>,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub code: u32,
    /// True if later calls return it too.
    pub sticky: bool,
    /// GPU whose object injects it; `None` for the whole machine.
    pub of: Option<usize>,
}

impl Machine {
    /// Reads the file in this variable; if unusable, an empty object and a line on standard error.
    #[must_use]
    pub fn of(variable: &str) -> Self {
        let path = std::env::var_os(variable).unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        let value =
            text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        let value = value.unwrap_or_else(|error| {
            let path = path.to_string_lossy();
            // Ignored: standard error is closed.
            let _ = writeln!(std::io::stderr(), "{variable}={path}: {error}");
            Value::Object(serde_json::Map::new())
        });
        let calls = Mutex::default();
        Self { value, calls }
    }

    /// Number of GPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self["gpus"].as_array().map_or(0, Vec::len)
    }

    /// Value of a GPU, else the common one.
    #[must_use]
    pub fn gpu(&self, index: usize, key: &str) -> Option<&Value> {
        let own = self["gpus"].get(index)?;
        own.get(key).or_else(|| self["gpu"].get(key)).filter(|value| !value.is_null())
    }

    /// Value `key` of a pair: its entry in `pairs` that `is_it` accepts, else the common `pair`.
    #[must_use]
    pub fn pair(&self, key: &str, is_it: impl Fn(&Value) -> bool) -> Option<&Value> {
        let pairs = self["pairs"].as_array().map_or(&[][..], Vec::as_slice);
        let own = pairs.iter().find(|pair| is_it(pair)).and_then(|pair| pair.get(key));
        own.or_else(|| self["pair"].get(key)).filter(|value| !value.is_null())
    }

    /// Error code of a function for any GPU. Hangs here if injected.
    #[must_use]
    pub fn fault(&self, function: &str) -> Option<u32> {
        self.called(function, None).map(|fault| fault.code)
    }

    /// Counts a call that may concern a GPU, and returns its failure. Hangs here if injected.
    #[must_use]
    pub fn called(&self, function: &str, gpu: Option<usize>) -> Option<Fault> {
        hang(self, function);
        if let Some(gpu) = gpu {
            hang(&self["gpus"][gpu], function);
        }
        // Both are counted in any case.
        let own = gpu.and_then(|gpu| {
            let fault =
                fault_of(&self["gpus"][gpu], function, || self.count_call(function, Some(gpu)));
            fault.map(|fault| Fault { of: Some(gpu), ..fault })
        });
        fault_of(self, function, || self.count_call(function, None)).or(own)
    }

    /// Number of earlier calls.
    fn count_call(&self, function: &str, gpu: Option<usize>) -> u64 {
        // Poisoning is ignored: a count changes in one step.
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry((gpu, function.to_owned())).or_default();
        *calls += 1;
        *calls - 1
    }
}

/// Hangs if an object injects it.
fn hang(object: &Value, function: &str) {
    if object["hang_in"] == function {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Failure of a call by one object; `before` counts the call and returns the number of earlier
/// ones.
fn fault_of(object: &Value, function: &str, before: impl FnOnce() -> u64) -> Option<Fault> {
    if let Some(code) = object["errors"].get(function).and_then(number) {
        return Some(Fault { code, sticky: false, of: None });
    }
    let after = object["errors_after"].get(function)?;
    let is_it = before() == after["calls"].as_u64().unwrap_or(0);
    let code = number(&after["code"]).filter(|_| is_it)?;
    let sticky = after["sticky"].as_bool().unwrap_or(false);
    Some(Fault { code, sticky, of: None })
}

impl Deref for Machine {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// Number, if it fits.
#[must_use]
pub fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|value| u32::try_from(value).ok())
}
