//! Priorities of responses (RFC 9218), which clients of HTTP/2 and HTTP/3 state.
use crate::field::members;

/// Urgencies of a response: 0 is the most urgent.
pub const URGENCIES: u8 = 8;

/// Priority of a response (RFC 9218 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Urgency, less than [`URGENCIES`]; a lower number is more urgent.
    pub urgency: u8,
    /// True if the client can use the response in pieces, as they arrive.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, is_incremental: false }
    }
}

impl Priority {
    /// Takes a `Priority` line, or the value of a `PRIORITY_UPDATE` frame. Members that are not
    /// understood change nothing (RFC 9218 §4: unknown and invalid parameters are ignored).
    pub fn take(&mut self, value: &[u8]) {
        for member in members(value) {
            // A parameter of a parameter has no meaning here.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default();
            match member.trim_ascii_end() {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = *digit - b'0',
                b"i" | b"i=?1" => self.is_incremental = true,
                b"i=?0" => self.is_incremental = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, urgency: u8, is_incremental: bool) {
        let mut priority = Priority::default();
        priority.take(value.as_bytes());
        assert_eq!(priority, Priority { urgency, is_incremental }, "{value:?}");
    }

    #[test]
    fn known_parameters_are_taken() {
        check("", 3, false);
        check("u=0", 0, false);
        check("u=7, i", 7, true);
        check("i", 3, true);
        check("i=?0", 3, false);
        check("i,i=?0", 3, false);
        check("u=1;x=2 ,  i=?1;y", 1, true);
        check("u=5, u=2", 2, false);
        check("x=\"u=1\", u=4", 4, false);
    }

    #[test]
    fn others_are_ignored() {
        for value in ["u=8", "u=-1", "u=10", "u", "u= 1", "U=1", "I", "i=1", "i=?2", "ui", ";u=1"] {
            check(value, 3, false);
        }
    }
}
