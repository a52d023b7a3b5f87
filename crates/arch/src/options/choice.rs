//! Options with a few words as values, as types: misspelt words do not compile, none is forgotten.

/// The values of a [`Kind::Choice`](super::Kind::Choice) option.
pub trait Choice: Copy + 'static {
    /// The words for the values, in the order of the documentation.
    const WORDS: &'static [&'static str];

    /// The value of a word; `None` if there is none.
    fn of(word: &str) -> Option<Self>;

    /// The word for this value.
    fn word(self) -> &'static str;
}

/// Makes a [`Choice`] of an enum whose values each have a word.
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

            fn of(word: &str) -> Option<Self> {
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
