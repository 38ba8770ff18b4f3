//! The HCA by proxy against a SIMULATED libibverbs: streams of a simulated GPU ring doorbells and wait for completions, and what the
//! verbs device does, refuses and forgets comes back as a card's completion entries.

#![allow(clippy::unwrap_used)]

mod errors;
mod machine;
mod operations;
mod refused;
mod side;
