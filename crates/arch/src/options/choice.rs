//! Options that take one of a few words, as types: a word that the code misspells does not compile,
//! and none is forgotten.

/// The values of a [`Kind::Choice`](super::Kind::Choice) option.
pub trait Choice: Copy + 'static {
    /// The words that stand for them, in the order in which they are documented.
    const WORDS: &'static [&'static str];

    /// What a word stands for; `None` if it is not one of them.
    fn of(word: &str) -> Option<Self>;

    /// The word that stands for it.
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
