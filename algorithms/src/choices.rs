//! Enumerations whose variants have names: the names that a person writes, parsing and printing come from one table.

/// A name that no variant has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{value}' is not known; it takes {known}")]
pub struct UnknownChoice {
    /// The given name.
    pub value: String,
    /// All names.
    pub known: &'static str,
}

/// Declares an enumeration by its variants and their names.
#[macro_export]
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($(#[$about])* $variant),+ }

        impl $name {
            /// All variants.
            $visibility const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name of the variant.
            $visibility fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::choices::UnknownChoice;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|choice| choice.name() == name).ok_or_else(|| {
                    let known = <Self as $crate::choices::Choice>::NAMES;
                    $crate::choices::UnknownChoice { value: name.to_owned(), known }
                })
            }
        }

        impl $crate::choices::Choice for $name {
            const NAMES: &'static str = {
                let names = concat!($($text, ", "),+);
                names.split_at(names.len() - 2).0
            };
        }
    };
}

/// An enumeration with names.
pub trait Choice: std::str::FromStr + std::fmt::Display {
    /// All names, separated by commas.
    const NAMES: &'static str;
}

impl Choice for bool {
    const NAMES: &'static str = "false, true";
}

pub use choices;
