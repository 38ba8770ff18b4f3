//! C functions that a library exports.

/// Declares exported C functions whose bodies return a `Result`. The guard named first gets the function's name and its body; it
/// catches panics and returns what the C function returns.
///
/// The functions of one call are all `unsafe`, or none is. rustfmt formats them, because they stand in parentheses.
#[macro_export]
macro_rules! exports {
    (use $guard:path; $(
        $(#[$attribute:meta])*
        pub unsafe fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $returned:ty $body:block
    )*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $returned {
            $guard(stringify!($name), || $body)
        }
    )*};
    (use $guard:path; $(
        $(#[$attribute:meta])*
        pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $returned:ty $body:block
    )*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $returned {
            $guard(stringify!($name), || $body)
        }
    )*};
}
