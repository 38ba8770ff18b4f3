//! Ranks that are threads of one process, each with a simulated GPU and a software HCA of its own.

#![allow(clippy::unwrap_used)]

mod bootstraps;
mod example;
mod faults;
mod messages;
mod programs;
mod streams;
mod support;
mod windows;
