//! The library as a file, and the header: exactly what programs built for gdrcopy look for.

use crate::clib::{check_dynamic_section, check_layout, exported};
use crate::support::{header, shipped};

#[test]
#[ignore = "needs nm and readelf"]
fn exactly_the_17_functions_are_exported() {
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(expected.len(), 17);
    assert_eq!(exported(&shipped()), expected);
}

#[test]
#[ignore = "needs nm and readelf"]
fn the_loader_finds_the_name_of_gdrcopy_and_needs_libc_only() {
    let text = check_dynamic_section(&shipped(), "libgdrapi.so.2");
    assert!(
        !text.contains("Version definition section"),
        "gdrcopy's symbols have no versions"
    );
}

#[test]
#[ignore = "needs a C compiler, a C++ compiler"]
fn the_header_has_the_layout_and_the_signatures_of_2_6_in_c_and_in_cxx() {
    let arguments = ["-Wno-expansion-to-defined".to_owned(), header()];
    check_layout(&shipped(), "libgdrapi", &arguments);
}
