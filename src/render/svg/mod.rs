//! stub
use crate::model::{Facts, Topology};
pub fn svg(_: &Facts, _: &Topology, _: &dyn Fn(u16, u16) -> String) -> String {
    String::new()
}
