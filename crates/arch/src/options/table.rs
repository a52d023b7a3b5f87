//! A driver's options as one struct, made of the same list as their table: what is read is what is
//! documented, and an option that nobody uses is a field that nobody reads.
use super::{Choice, Settings};

/// A type that an option's value is read as.
pub(crate) trait Taken {
    /// The value of the option called `key`, which is of the kind that stands for this type.
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
        /// The table of these options.
        $vis const $table: &[$crate::options::OptionSpec] = &[$($spec),+];

        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $(
                /// What the option is set to.
                $vis $field: $type
            ),+
        }

        impl $name {
            /// Their values.
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
