//! The machine that a SIMULATED library answers from: a JSON file that an environment variable names. What its values mean
//! is the library's business; what all of them have in common is here: `gpus`, `gpu` for what these have in common,
//! `"errors": {"FUNCTION": 15}` to make a function return that code, and `"hang_in": "FUNCTION"` to make one sleep for ever.

use std::io::Write;
use std::ops::Deref;

use serde_json::Value;

/// A machine file; its members are those of the JSON object that it dereferences to.
#[derive(Debug)]
pub struct Machine(Value);

impl Machine {
    /// The file that this variable names; without a usable one, an empty object and a line on standard error.
    #[must_use]
    pub fn of(variable: &str) -> Self {
        let path = std::env::var_os(variable).unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        let value = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        Self(value.unwrap_or_else(|error| {
            let path = path.to_string_lossy();
            // Nothing can be done about a closed standard error.
            let _ = writeln!(std::io::stderr(), "{variable}={path}: {error}");
            Value::Object(serde_json::Map::new())
        }))
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
        let own = pairs.iter().find(|pair| is_it(pair)).and_then(|pair| pair.get(key));
        own.or_else(|| self["pair"].get(key)).filter(|value| !value.is_null())
    }

    /// The code that a function is to return. Where it is to hang, this does.
    #[must_use]
    pub fn fault(&self, function: &str) -> Option<u32> {
        if self["hang_in"] == function {
            loop {
                std::thread::sleep(std::time::Duration::from_secs(3600));
            }
        }
        self["errors"].get(function).and_then(number)
    }
}

impl Deref for Machine {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// A number that fits.
#[must_use]
pub fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|value| u32::try_from(value).ok())
}
