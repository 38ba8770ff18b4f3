//! How a C structure or a set of constants is declared once, for the compiler and for the test that holds it against the
//! header.

/// A structure as this compiler lays it out.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Its name in C, as in `struct ibv_mr`.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    pub fields: &'static [Field],
}

/// A field of a structure.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name in C, with the path to it where it lies in a nested structure.
    pub name: &'static str,
    /// Where it begins.
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

/// The name of a field in C: its own, or the one that is given for it.
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
                /// All zero, as C programs begin.
                fn default() -> Self {
                    // SAFETY: it is made of integers, pointers, optional functions, and arrays and structures of these: for
                    // each of them zero is a value.
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

/// Declares constants of C in groups: `values name` for an enumeration in a module of its own, `plain name` for one whose values
/// stand beside its type, `flags name` for bits that are combined. Which it is follows how `ibverbs` names them.
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
            /// A value of it, known or not.
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
