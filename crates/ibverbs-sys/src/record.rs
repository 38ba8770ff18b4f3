//! Macros that declare a C structure or constants once, for the compiler and for the test against the header.

/// A structure as this compiler lays it out.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Its C name, such as `struct ibv_mr`.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    pub fields: &'static [Field],
}

/// A field of a structure.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its C name, with the path in nested structures.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Its name in C.
    pub name: &'static str,
    pub value: u32,
}

/// A field's C name: its own, or the explicit one.
macro_rules! c_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// Declares structures and unions of C: `"name in C" struct Name { field: Type, field: Type = "name in C", }`.
macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $c:literal $kind:ident $name:ident { $( $field:ident : $type:ty $(= $c_field:literal)? , )* }
    )*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            // The fields are documented by the manual pages of libibverbs.
            #[allow(missing_docs)]
            pub $kind $name { $( pub $field: $type, )* }

            impl Default for $name {
                /// All zero, as C programs initialise it.
                fn default() -> Self {
                    // SAFETY: integers, pointers, optional functions, and arrays and structures of these, for all of which zero is valid.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*

        pub(crate) const RECORDS: &[$crate::Record] = &[ $(
            $crate::Record {
                name: $c,
                size: size_of::<$name>(),
                fields: &[ $( $crate::Field {
                    name: c_name!($field $($c_field)?),
                    offset: std::mem::offset_of!($name, $field),
                    size: size_of::<$type>(),
                }, )* ],
            },
        )* ];
    };
}

/// Declares groups of C constants: `values name` for an enumeration in a module, `plain name` for one beside its type, `flags name` for bit
/// flags, as `ibverbs` names them.
macro_rules! constants {
    ($( $(#[$meta:meta])* $kind:ident $group:ident { $( $name:ident = $value:expr, )* } )*) => {
        $( constants!(@one $kind $(#[$meta])* $group { $( $name = $value, )* }); )*

        pub(crate) const CONSTANTS: &[&[$crate::Constant]] = &[ $(
            &[ $( $crate::Constant { name: stringify!($name), value: $value }, )* ],
        )* ];
    };
    (@one values $(#[$meta:meta])* $group:ident { $( $name:ident = $value:expr, )* }) => {
        $(#[$meta])*
        // The values are documented by the manual pages of libibverbs.
        #[allow(missing_docs)]
        pub mod $group {
            /// Type of the values, known or not.
            pub type Type = u32;
            $( pub const $name: Type = $value; )*
        }
    };
    (@one plain $(#[$meta:meta])* $group:ident { $( $name:ident = $value:expr, )* }) => {
        $(#[$meta])*
        pub type $group = u32;
        $(
            #[doc = concat!("A value of [`", stringify!($group), "`].")]
            pub const $name: $group = $value;
        )*
    };
    (@one flags $(#[$meta:meta])* $group:ident { $( $name:ident = $value:expr, )* }) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $group(
            /// The bits.
            pub u32,
        );

        // The bits are documented by the manual pages of libibverbs.
        #[allow(missing_docs)]
        impl $group {
            $( pub const $name: Self = Self($value); )*
        }

        impl std::ops::BitOr for $group {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $group {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $group {
            type Output = Self;

            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }
    };
}
