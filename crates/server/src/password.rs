//! `regatta password`: a random password, and its entry in the configuration.
use crate::config::options;
use regatta_arch::options::Value;
use regatta_origin::AuthRule;
use std::{
    fs::File,
    io::{self, Read as _},
};

/// Letters of a password: 130 bits.
const LETTERS: usize = 26;
/// 32 letters that cannot be confused.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A new password for a user.
#[derive(Debug)]
pub struct Generated {
    /// The password.
    pub password: String,
    /// Entry in `users` of `[[auth]]`.
    pub user: String,
}

/// Makes a password.
///
/// The system gives no random bytes, or the name is not allowed: `InvalidInput`.
pub fn generate(name: &str) -> io::Result<Generated> {
    let mut random = [0; LETTERS];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    let password: String = random.into_iter().map(letter).collect();
    let user = AuthRule::user(name, &password).ok_or_else(|| {
        let why = "a name has 1 to 128 bytes, no colon and no control characters";
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    Ok(Generated { password, user })
}

/// For people: the password, and the line that the configuration has for it.
#[must_use]
pub fn text(generated: &Generated) -> String {
    let Generated { password, user } = generated;
    let users = options::toml(&Value::List(vec![user.clone()]));
    format!("password: {password}\nusers = {users}\n")
}

/// For programs: one JSON object.
#[must_use]
pub fn json(generated: &Generated) -> String {
    let Generated { password, user } = generated;
    format!("{:#}\n", serde_json::json!({"password": password, "user": user}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_a_user() {
        let (one, other) = (generate("a\"b").unwrap(), generate("a\"b").unwrap());
        assert_ne!(one.password, other.password);
        assert_eq!((one.password.len(), one.user.len()), (LETTERS, "a\"b:".len() + 64));
        assert_eq!(AuthRule::user("a\"b", &one.password).as_ref(), Some(&one.user));
        let line = format!("users = [\"{}\"]\n", one.user.replace('"', "\\\""));
        assert_eq!(text(&one), format!("password: {}\n{line}", one.password));
        let fault = |name| generate(name).err().map(|error| error.kind());
        let wrong = Some(io::ErrorKind::InvalidInput);
        assert_eq!((fault(""), fault("a:b")), (wrong, wrong));
    }
}
