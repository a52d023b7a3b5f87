//! A driver's options as one struct, from the same list as their table. Only documented options can
//! be read, and an unused option shows as an unread field.
use super::{Choice, Settings};

/// Type that an option's value is read as.
pub(crate) trait Taken {
    /// The value of the option `key`, whose kind belongs to this type.
    fn taken(settings: &Settings, key: &str) -> Self;
}

impl Taken for bool {
    fn taken(settings: &Settings, key: &str) -> Self {
        settings.flag(key)
    }
}

impl Taken for u64 {
    fn taken(settings: &Settings, key: &str) -> Self {
        settings.number(key)
    }
}

impl Taken for u32 {
    fn taken(settings: &Settings, key: &str) -> Self {
        settings.number_as(key)
    }
}

impl Taken for usize {
    fn taken(settings: &Settings, key: &str) -> Self {
        settings.number_as(key)
    }
}

impl<T: Choice> Taken for T {
    fn taken(settings: &Settings, key: &str) -> Self {
        settings.choice(key)
    }
}

/// Makes a table of options, and a struct that holds their values.
macro_rules! options {
    (
        $(#[$about:meta])* $vis:vis struct $name:ident, $table:ident;
        $($field:ident: $type:ty = $spec:expr),+ $(,)?
    ) => {
        /// Table of these options.
        $vis const $table: &[$crate::options::OptionSpec] = &[$($spec),+];

        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $(
                /// Value of the option.
                $vis $field: $type
            ),+
        }

        impl $name {
            /// Reads the values.
            #[must_use]
            $vis fn read(settings: &$crate::options::Settings) -> Self {
                Self {
                    $($field: {
                        const KEY: &str = { $spec }.key;
                        $crate::options::Taken::taken(settings, KEY)
                    }),+
                }
            }
        }
    };
}
pub(crate) use options;
