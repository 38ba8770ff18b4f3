//! Raw vendor ABIs: numbers, layouts and function types, each with its source, without policy.
//!
//! Libraries are opened at run time and every function is optional: a missing function is `None`
//! and never prevents startup. Return codes are integers with names for known values, so an unknown
//! code is not undefined behaviour. All calls are unsafe; the safe crates above document when they
//! are sound.
//!
//! Beside them is what every crate that calls a vendor's library, or lives in another program, needs:
//! [`loader`] opens libraries, [`process`] keeps state from forked children, and [`exports!`] declares
//! C functions.

#![deny(clippy::undocumented_unsafe_blocks)]

/// Constants of a type of codes, and their names: constant, number, name in the header.
macro_rules! codes {
    ($type:ident, $header:literal; $( $name:ident = $value:literal, $c:literal; )*) => {
        impl $type {
            $(
                #[doc = concat!("`", $c, "`")]
                pub const $name: Self = Self($value);
            )*

            #[doc = concat!("Name in ", $header, ", if known.")]
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some($c), )*
                    _ => None,
                }
            }
        }
    };
}

pub mod cuda;
pub mod gdrdrv;
pub mod loader;
pub mod process;
pub mod rm;
