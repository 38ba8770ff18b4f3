//! Exports, SONAME and header of the built library: compatible with gdrcopy.

use crate::clib::{check_dynamic_section, check_layout, exported};
use crate::support::{header, shipped};

#[test]
#[ignore = "needs nm and readelf"]
fn exports_17_functions() {
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(expected.len(), 17);
    assert_eq!(exported(&shipped()), expected);
}

#[test]
#[ignore = "needs nm and readelf"]
fn soname_and_dependencies() {
    let text = check_dynamic_section(&shipped(), "libgdrapi.so.2");
    assert!(!text.contains("Version definition section"), "gdrcopy's symbols have no versions");
}

#[test]
#[ignore = "needs a C compiler, a C++ compiler"]
fn header_layout_in_c_and_cxx() {
    let arguments = ["-Wno-expansion-to-defined".to_owned(), header()];
    check_layout(&shipped(), "libgdrapi", &arguments);
}
