//! The host that a request is for (RFC 9110 §7.2).
use alloc::{boxed::Box, string::String};
use core::fmt;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The longest name of a host, bytes: DNS has none that is longer.
pub const HOST_BYTES_MAX: usize = 253;

/// The numbers of hosts by their names. The first host is 0, and answers for unknown names.
#[derive(Clone, Default)]
pub struct Hosts {
    names: HashMap<Box<[u8]>, u16, FixedState>,
}

impl Hosts {
    /// True if there is only the first host: nothing is looked up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Gives a host this name, which is in lower case and without a port.
    pub(crate) fn insert(&mut self, name: String, number: u16) {
        self.names.insert(name.into_bytes().into(), number);
    }

    /// The number of the host that a request names by this authority; 0 if none has that name.
    #[inline(always)]
    pub(crate) fn find(&self, authority: Option<&[u8]>) -> u16 {
        if self.is_empty() { 0 } else { self.look_up(authority.unwrap_or_default()) }
    }

    #[inline(never)]
    fn look_up(&self, authority: &[u8]) -> u16 {
        let mut room = [0; HOST_BYTES_MAX];
        let name = name(authority);
        let Some(room) = room.get_mut(..name.len()) else { return 0 };
        room.copy_from_slice(name);
        room.make_ascii_lowercase();
        self.names.get(&*room).copied().unwrap_or(0)
    }
}

/// An authority without its port, and without the dot of the root of all names.
fn name(authority: &[u8]) -> &[u8] {
    let name = without_port(authority);
    name.strip_suffix(b".").unwrap_or(name)
}

/// An authority without its port.
pub(crate) fn without_port(authority: &[u8]) -> &[u8] {
    // The last colon of an address in brackets starts no port.
    let end = authority.iter().rposition(|byte| matches!(byte, b':' | b']'));
    let end = end.filter(|at| authority[*at] == b':').unwrap_or(authority.len());
    &authority[..end]
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    #[test]
    fn a_host_is_found_by_its_name_alone() {
        let longest = "a".repeat(HOST_BYTES_MAX);
        let mut hosts = Hosts::default();
        assert_eq!(hosts.find(Some(b"a.example")), 0);
        for (name, number) in
            [("a.example", 1), ("www.a.example", 1), ("b.example", 2), ("[::1]", 2), (&longest, 2)]
        {
            hosts.insert(name.to_owned(), number);
        }
        let longer = longest.clone() + "a";
        let first =
            ["a.example", "A.Example:8080", "www.a.example.", "www.a.example.:80", "a.example:"];
        for (expected, authorities) in [
            (1, &first[..]),
            (2, &["b.example", "[::1]", "[::1]:8080", &*longest]),
            (0, &[&*longer, "[::2]", "a.example..", "x.a.example", "example", ":80", ""]),
        ] {
            for authority in authorities {
                assert_eq!(hosts.find(Some(authority.as_bytes())), expected, "{authority}");
            }
        }
        assert_eq!(hosts.find(None), 0);
    }
}
