//! temporary
use super::Request;
use crate::probe::events::{Event, Teller};
use std::io::{self, Write};
/// x
pub fn answer(_request: Request, out: &mut dyn Write) -> io::Result<()> {
    Teller::new(out, std::time::Duration::from_secs(1)).tell(&Event::End)
}
/// x
pub fn kernels() -> Vec<&'static str> {
    vec!["portable"]
}
