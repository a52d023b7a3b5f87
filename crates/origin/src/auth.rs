//! Basic authentication (RFC 7617) with passwords that are generated.
//!
//! A password has 130 random bits, too many to find it from its SHA-256 by trying. A deliberately
//! slow hash would add only a way to hold up a loop: a few blocks of SHA-256 take a microsecond
//! where the request is answered.
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use core::{fmt::Write as _, hint::black_box};
use sha2::{Digest as _, Sha256};

/// The longest name and password that are checked, together, bytes.
const CREDENTIALS_BYTES_MAX: usize = 256;
/// The longest name of a user, bytes.
const NAME_BYTES_MAX: usize = 128;
/// The most users of a rule.
const USERS_MAX: usize = 256;

/// Rule for the users that may see paths matching a pattern. A clone is the same rule.
#[derive(Clone, Debug)]
pub struct AuthRule {
    users: Arc<[User]>,
    challenge: Arc<str>,
    pub(crate) place: Arc<str>,
}

#[derive(Clone, Debug)]
struct User {
    name: Box<[u8]>,
    /// The SHA-256 of the password.
    digest: [u8; 32],
}

/// Reason why a rule cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthFault {
    /// The realm has a character that it may not have.
    Realm,
    /// No user, or too many.
    Count,
    /// This user is malformed, by its number.
    User(usize),
}

impl AuthFault {
    /// Sentence for people: the fault, and what helps.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Realm => "a realm has only visible ASCII characters and spaces, no \" and no \\",
            Self::Count => "there must be a user, and 256 at most",
            Self::User(_) => {
                "a user is name:hash, as `regatta password NAME` prints it: the hash is the \
                 SHA-256 of a generated password in 64 hex digits"
            }
        }
    }
}

impl AuthRule {
    /// A rule for these users, each `name:hash`.
    ///
    /// # Errors
    /// The fault of the rule.
    pub fn new(realm: &str, users: &[String], place: &str) -> Result<Self, AuthFault> {
        let fits = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        if realm.is_empty() || !realm.bytes().all(fits) {
            return Err(AuthFault::Realm);
        }
        if users.is_empty() || users.len() > USERS_MAX {
            return Err(AuthFault::Count);
        }
        let mut known = Vec::with_capacity(users.len());
        for (at, text) in users.iter().enumerate() {
            known.push(User::parse(text).ok_or(AuthFault::User(at))?);
        }
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"").into();
        Ok(Self { users: known.into(), challenge, place: place.into() })
    }

    /// A user in the form that a rule takes: `name:hash`. `None` if the name is not allowed.
    #[must_use]
    pub fn user(name: &str, password: &str) -> Option<String> {
        let mut text = name.to_string() + ":";
        for byte in digest(password.as_bytes()) {
            let _ = write!(text, "{byte:02x}");
        }
        User::parse(&text).map(|_| text)
    }

    /// The value of `WWW-Authenticate`.
    pub(crate) fn challenge(&self) -> Arc<str> {
        Arc::clone(&self.challenge)
    }

    /// True if `other` is a clone of this one, and not another rule with the same users.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.challenge, &other.challenge)
    }

    /// True if the value of `Authorization` is that of one of its users.
    pub(crate) fn admits(&self, value: &[u8]) -> bool {
        let mut room = [0; CREDENTIALS_BYTES_MAX];
        credentials(value, &mut room).is_some_and(|(name, password)| self.knows(name, password))
    }

    /// Takes equally long for all users, and for any part of the hash that is right.
    fn knows(&self, name: &[u8], password: &[u8]) -> bool {
        let given = digest(password);
        let is = |user: &User| is_equal(&user.digest, &given) & (*user.name == *name);
        self.users.iter().fold(false, |known, user| known | is(user))
    }
}

impl User {
    fn parse(text: &str) -> Option<Self> {
        let (name, hash) = text.split_once(':')?;
        let hash = hash.trim().as_bytes();
        let length = 1..=NAME_BYTES_MAX;
        if !length.contains(&name.len()) || name.contains(char::is_control) || hash.len() != 64 {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hash.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self { name: name.as_bytes().into(), digest })
    }
}

fn digest(password: &[u8]) -> [u8; 32] {
    Sha256::digest(password).into()
}

/// Compares all bytes, whatever the first ones are.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    black_box(differ) == 0
}

/// The name and the password in a value of `Authorization`, decoded into `room`.
fn credentials<'r>(value: &[u8], room: &'r mut [u8]) -> Option<(&'r [u8], &'r [u8])> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let len = STANDARD.decode_slice(encoded.trim_ascii(), room).ok()?;
    let decoded = &room[..len];
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some((&decoded[..colon], &decoded[colon + 1..]))
}

/// `Cache-Control` for protected files: no shared cache may keep them (RFC 9111 §3.5).
pub(crate) fn private(value: &str) -> Box<str> {
    let mut text = String::from("private");
    for directive in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let name = directive.split('=').next().unwrap_or_default().trim();
        if !["public", "private", "s-maxage"].iter().any(|other| name.eq_ignore_ascii_case(other)) {
            text.push_str(", ");
            text.push_str(directive);
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `abc` (FIPS 180-2, B.1).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn users_are_known_by_name_and_password() {
        let users = [format!("ann:{ABC}"), format!("b\u{fc}b: {}", ABC.to_uppercase())];
        let rule = AuthRule::new("the docs", &users, "r.toml:1").expect("a rule");
        // ann:abc twice, and b\u{fc}b:abc.
        for value in ["Basic YW5uOmFiYw==", "bAsIc  YW5uOmFiYw==", "Basic YsO8YjphYmM="] {
            assert!(rule.admits(value.as_bytes()), "{value}");
        }
        // ann:abd, bob:abc, ann:, :abc.
        let others =
            ["Basic YW5uOmFiZA==", "Basic Ym9iOmFiYw==", "Basic YW5uOg==", "Basic OmFiYw=="];
        let wrong =
            ["Basic YW5uOmFiYw=", "Basic YW5uOmFiYw", "Basic YW5uOmFiYx==", "Basic YW5uOmFiYw==="];
        // The first is ann.
        let none = ["Basic YW5u", "Basic", "Basic ", "Basic =", "Bearer YW5uOmFiYw==", ""];
        for value in others.into_iter().chain(wrong).chain(none) {
            assert!(!rule.admits(value.as_bytes()), "{value}");
        }
        let long = format!("Basic {}", "YWE6".repeat(CREDENTIALS_BYTES_MAX));
        assert!(!rule.admits(long.as_bytes()));
        assert_eq!(&*rule.challenge(), "Basic realm=\"the docs\", charset=\"UTF-8\"");
        let again = AuthRule::new("the docs", &users, "r.toml:1").expect("a rule");
        assert!(rule.is_same(&rule.clone()) && !rule.is_same(&again));
    }

    #[test]
    fn rules_are_read_or_explained() {
        let user = AuthRule::user("a", "abc").expect("a user");
        assert_eq!(user, format!("a:{ABC}"));
        let fault = |realm: &str, users: &[&str]| {
            let users: Vec<_> = users.iter().map(|user| String::from(*user)).collect();
            AuthRule::new(realm, &users, "").err()
        };
        assert_eq!(fault("r", &[&user]), None);
        assert_eq!(fault("a\"b", &[&user]), Some(AuthFault::Realm));
        assert_eq!(fault("\u{fc}", &[&user]), Some(AuthFault::Realm));
        assert_eq!(fault("", &[&user]), Some(AuthFault::Realm));
        assert_eq!(fault("r", &[]), Some(AuthFault::Count));
        let long = format!("a:{}x", &ABC[1..]);
        for wrong in ["a", "a:", "a:abc", &user[1..], &user[..65], long.as_str()] {
            assert_eq!(fault("r", &[&user, wrong]), Some(AuthFault::User(1)), "{wrong}");
        }
        for name in ["", "a:b", "a\n", &"a".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(AuthRule::user(name, "abc"), None, "{name}");
        }
    }

    #[test]
    fn others_may_not_keep_it() {
        for (value, expected) in [
            ("", "private"),
            ("no-cache", "private, no-cache"),
            ("public, max-age=31536000, immutable", "private, max-age=31536000, immutable"),
            ("Private,s-maxage = 5 ,max-age=1", "private, max-age=1"),
        ] {
            assert_eq!(&*private(value), expected);
        }
    }
}
