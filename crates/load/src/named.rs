//! Values that have names.

/// Makes an enum whose values each have a name, which is also how it is written and read: `ALL` of
/// them, the `name` of each, and the one that is `named` so.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $enum:ident {
        $($(#[$doc:meta])* $value:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $enum {
            $($(#[$doc])* #[serde(rename = $name)] $value),+
        }

        impl $enum {
            /// All of them, in their order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// The one of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
