//! The machine that a SIMULATED library answers from: a JSON file that an environment variable names. What its values mean
//! is the library's business; what all of them have in common is here: `gpus`, `gpu` for what these have in common, and how
//! they misbehave:
//!
//! - `"errors": {"FUNCTION": 15}`: a function returns that code, at every call;
//! - `"errors_after": {"FUNCTION": {"calls": 4, "code": 700, "sticky": true}}`: its fifth call in this process does, and no
//!   other; what more a sticky failure spoils is the library's business;
//! - `"stall": {"FUNCTION": 250}`: a function sleeps that many milliseconds first;
//! - `"hang_in": "FUNCTION"`: one sleeps for ever.
//!
//! In an element of `gpus`, all of these are of the calls that concern that GPU, as far as the library says which that is.

pub mod dmabuf;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// A machine file; its members are those of the JSON object that it dereferences to.
#[derive(Debug)]
pub struct Machine {
    value: Value,
    /// How often a function was called, in all and of each GPU.
    calls: Mutex<BTreeMap<(Option<usize>, String), u64>>,
}

/// How a call is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub code: u32,
    /// Whether this is what later calls are to return, too.
    pub sticky: bool,
    /// The GPU whose object asks for it; `None` where the whole machine's does.
    pub of: Option<usize>,
}

impl Machine {
    /// The file that this variable names; without a usable one, an empty object and a line on standard error.
    #[must_use]
    pub fn of(variable: &str) -> Self {
        let path = std::env::var_os(variable).unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        let value =
            text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        let value = value.unwrap_or_else(|error| {
            let path = path.to_string_lossy();
            // Nothing can be done about a closed standard error.
            let _ = writeln!(std::io::stderr(), "{variable}={path}: {error}");
            Value::Object(serde_json::Map::new())
        });
        let calls = Mutex::default();
        Self { value, calls }
    }

    /// The number of GPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self["gpus"].as_array().map_or(0, Vec::len)
    }

    /// A GPU's own value, else the one all have.
    #[must_use]
    pub fn gpu(&self, index: usize, key: &str) -> Option<&Value> {
        let own = self["gpus"].get(index)?;
        own.get(key)
            .or_else(|| self["gpu"].get(key))
            .filter(|value| !value.is_null())
    }

    /// What `key` says of a pair: its entry in `pairs` that `is_it` takes, else `pair`, which is for all.
    #[must_use]
    pub fn pair(&self, key: &str, is_it: impl Fn(&Value) -> bool) -> Option<&Value> {
        let pairs = self["pairs"].as_array().map_or(&[][..], Vec::as_slice);
        let own = pairs
            .iter()
            .find(|pair| is_it(pair))
            .and_then(|pair| pair.get(key));
        own.or_else(|| self["pair"].get(key))
            .filter(|value| !value.is_null())
    }

    /// The code that a function is to return, whatever GPU it is asked of. Where it is to stall or to hang, this does.
    #[must_use]
    pub fn fault(&self, function: &str) -> Option<u32> {
        self.called(function, None).map(|fault| fault.code)
    }

    /// One more call of a function, which may concern a GPU: how it is to fail. Where it is to stall or to hang, this does.
    #[must_use]
    pub fn called(&self, function: &str, gpu: Option<usize>) -> Option<Fault> {
        delay(self, function);
        if let Some(gpu) = gpu {
            delay(&self["gpus"][gpu], function);
        }
        // Both are counted in any case.
        let own = gpu.and_then(|gpu| {
            let fault = fault_of(&self["gpus"][gpu], function, || {
                self.count_call(function, Some(gpu))
            });
            fault.map(|fault| Fault {
                of: Some(gpu),
                ..fault
            })
        });
        fault_of(self, function, || self.count_call(function, None)).or(own)
    }

    /// How many calls there were before this one.
    fn count_call(&self, function: &str, gpu: Option<usize>) -> u64 {
        // A number is written in one go: what a panic left is whole.
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry((gpu, function.to_owned())).or_default();
        *calls += 1;
        *calls - 1
    }
}

/// Stalls or hangs where one object says so.
fn delay(object: &Value, function: &str) {
    if let Some(milliseconds) = object["stall"][function].as_u64() {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
    if object["hang_in"] == function {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// How a call fails after what one object says; `before` counts the call and says how many there were.
fn fault_of(object: &Value, function: &str, before: impl FnOnce() -> u64) -> Option<Fault> {
    if let Some(code) = object["errors"].get(function).and_then(number) {
        return Some(Fault {
            code,
            sticky: false,
            of: None,
        });
    }
    let after = object["errors_after"].get(function)?;
    let is_it = before() == after["calls"].as_u64().unwrap_or(0);
    let code = number(&after["code"]).filter(|_| is_it)?;
    let sticky = after["sticky"].as_bool().unwrap_or(false);
    Some(Fault {
        code,
        sticky,
        of: None,
    })
}

impl Deref for Machine {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// A number that fits.
#[must_use]
pub fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|value| u32::try_from(value).ok())
}
