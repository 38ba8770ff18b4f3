//! C functions that a library exports.

/// Declares exported C functions whose bodies return a `Result`. The guard named first gets the function's name and its body; it
/// catches panics and returns what the C function returns.
///
/// The functions of one call are all `unsafe`, or none is. rustfmt formats them, because they stand in parentheses.
///
/// ```
/// mod guard {
///     /// Returns 0 or the errno.
///     pub fn call(_function: &str, body: impl FnOnce() -> Result<(), i32>) -> i32 {
///         body().map_or_else(|errno| errno, |()| 0)
///     }
/// }
///
/// gdr_sys::exports!(
///     use guard::call;
///
///     /// Writes the half of an even number; 22 for NULL and odd numbers.
///     ///
///     /// # Safety
///     ///
///     /// `half` is NULL or writable.
///     pub unsafe fn example_half(number: i32, half: *mut i32) -> i32 {
///         if half.is_null() || number % 2 != 0 {
///             return Err(22);
///         }
///         // SAFETY: not NULL, so writable as the caller guarantees.
///         unsafe { half.write(number / 2) };
///         Ok(())
///     }
/// );
///
/// let mut half = 0;
/// // SAFETY: NULL, or a variable.
/// let returned = unsafe { [example_half(6, &mut half), example_half(6, std::ptr::null_mut())] };
/// assert_eq!((returned, half), ([0, 22], 3));
/// ```
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
