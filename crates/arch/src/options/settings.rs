//! Values of options, and their reading: one by one from [`Settings`], as types ([`Choice`]), and
//! all options of a driver as one struct, from the same list as their table (`options!`).
use super::{OptionSpec, Value, ValueFault};
use std::{
    collections::{BTreeMap, btree_map},
    path::Path,
    sync::Arc,
};

/// Value of every known option; no default applies outside this table.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, Value>,
    /// Values of the options that are not in `values`.
    base: Option<Arc<Self>>,
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Settings {}

impl Settings {
    /// Every option of `specs` at its default.
    ///
    /// # Panics
    /// If a default is not a value of its option, which is a fault in our own table.
    #[must_use]
    pub fn defaults<'a>(specs: impl IntoIterator<Item = &'a OptionSpec>) -> Self {
        let mut settings = Self::default();
        for spec in specs {
            let value = spec.kind.parse(spec.default);
            let value = value.unwrap_or_else(|fault| panic!("default of {}: {fault}", spec.key));
            settings.values.insert(spec.key, value);
        }
        settings
    }

    /// The values of `base`, until others are set. Shares the memory of unchanged values.
    #[must_use]
    pub fn over(base: Arc<Self>) -> Self {
        Self { values: BTreeMap::new(), base: Some(base) }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// The option does not take `value`; nothing is changed.
    pub fn set(&mut self, spec: &OptionSpec, value: Value) -> Result<(), ValueFault> {
        if !spec.kind.holds(&value) {
            return Err(ValueFault(format!("expected {}", spec.kind.describe())));
        }
        self.values.insert(spec.key, value);
        Ok(())
    }

    /// The value of an option by name; `None` if there is no such option.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).or_else(|| self.base.as_ref()?.get(key))
    }

    /// All options and their values, ordered by name.
    pub fn iter(&self) -> btree_map::IntoIter<&'static str, &Value> {
        let base: Vec<_> = self.base.iter().flat_map(|base| base.iter()).collect();
        let own = self.values.iter().map(|(key, value)| (*key, value));
        base.into_iter().chain(own).collect::<BTreeMap<_, _>>().into_iter()
    }

    /// A [`Kind::Bool`] option.
    ///
    /// # Panics
    /// If no option of this kind has this name, as in all typed getters. Such a fault in the
    /// calling code is found by the first test that runs it.
    #[must_use]
    #[track_caller]
    pub fn flag(&self, key: &str) -> bool {
        match self.get(key) {
            Some(Value::Flag(flag)) => *flag,
            other => panic!("{key} is no true-or-false option: {other:?}"),
        }
    }

    /// A [`Kind::Count`], [`Kind::Bytes`], [`Kind::Millis`], [`Kind::MillisOrNever`],
    /// [`Kind::Micros`] or [`Kind::Rate`] option, in the unit of its kind; the largest number for
    /// never.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn number(&self, key: &str) -> u64 {
        match self.get(key) {
            Some(Value::Number(number)) => *number,
            Some(Value::Never) => u64::MAX,
            other => panic!("{key} is no number option: {other:?}"),
        }
    }

    /// Acts as [`Settings::number`], for a use that takes less than 64 bits; saturates.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn number_as<T: TryFrom<u64> + Max>(&self, key: &str) -> T {
        T::try_from(self.number(key)).unwrap_or(T::MAX)
    }

    /// A [`Kind::Choice`] option whose words are those of `T`.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn choice<T: Choice>(&self, key: &str) -> T {
        let word = self.text(key);
        T::parse(word).unwrap_or_else(|| panic!("{key} is none of {:?}: {word}", T::WORDS))
    }

    /// A [`Kind::Text`] option.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn text(&self, key: &str) -> &str {
        match self.get(key) {
            Some(Value::Text(text)) => text,
            other => panic!("{key} is no text option: {other:?}"),
        }
    }

    /// A [`Kind::Path`] option; `None` if it is empty.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn path(&self, key: &str) -> Option<&Path> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(Path::new)
    }

    /// A [`Kind::List`] option.
    ///
    /// # Panics
    /// As [`Settings::flag`].
    #[must_use]
    #[track_caller]
    pub fn list(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some(Value::List(items)) => items,
            other => panic!("{key} is no list option: {other:?}"),
        }
    }
}

/// Integers with a greatest value, for [`Settings::number_as`].
pub trait Max {
    /// The greatest value.
    const MAX: Self;
}

impl Max for u8 {
    const MAX: Self = Self::MAX;
}
impl Max for u16 {
    const MAX: Self = Self::MAX;
}
impl Max for u32 {
    const MAX: Self = Self::MAX;
}
impl Max for usize {
    const MAX: Self = Self::MAX;
}

/// The values of a [`Kind::Choice`](super::Kind::Choice) option.
pub trait Choice: Copy + 'static {
    /// The words for the values, in the order of the documentation.
    const WORDS: &'static [&'static str];

    /// The value of a word; `None` if there is none.
    fn parse(word: &str) -> Option<Self>;

    /// The word for this value.
    fn word(self) -> &'static str;
}

/// Makes a [`Choice`] of an enum whose values each have a word. Misspelt words do not compile, and
/// none is forgotten.
macro_rules! choice {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $value:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $value),+
        }

        impl $crate::options::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$value),)+
                    _ => None,
                }
            }

            fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word),+
                }
            }
        }
    };
}
pub(crate) use choice;

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

/// Makes a table of options, and a struct that holds their values. Only documented options can be
/// read, and an unused option shows as an unread field.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Kind;

    #[test]
    fn settings_know_every_option_and_nothing_else() {
        let spec = OptionSpec { key: "a.b", kind: Kind::Bool, default: "true", doc: "", long: "" };
        let mut settings = Settings::defaults([&spec]);
        assert!(settings.flag("a.b"));
        settings.set(&spec, Value::Flag(false)).unwrap();
        assert!(!settings.flag("a.b"));
        assert!(settings.set(&spec, Value::Number(1)).is_err());
        assert_eq!(settings.get("a.c"), None);
        assert_eq!(settings.iter().count(), 1);
    }
}
