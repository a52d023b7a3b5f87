//! Terminals: size, keys without a line's end, and text that fits.
use crate::wait::{Interest, ready_within};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

/// Columns of a terminal that does not know its size, and of texts that fit any.
pub const COLUMNS: usize = 80;

/// Ctrl-C as a key.
pub const INTERRUPT: u8 = 3;

/// Rows and columns of a terminal; `None` if it does not know.
#[must_use]
pub fn size(terminal: BorrowedFd<'_>) -> Option<(usize, usize)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// Wraps a text in lines of at most `columns` characters, unless a word is longer.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > columns {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += len;
    }
    lines
}

/// Wraps a line that is wider than `columns`. Its further lines are indented by `indent`.
#[must_use]
pub fn hanging(line: &str, columns: usize, indent: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    continued("", line, columns, indent)
}

/// Wraps a text after `head`. All lines but the first are indented by `indent`, which is at least
/// the width of `head`.
#[must_use]
pub fn continued(head: &str, text: &str, columns: usize, indent: usize) -> String {
    let next = format!("\n{:indent$}", "");
    head.to_owned() + &wrapped(text, columns.saturating_sub(indent)).replace('\n', &next)
}

/// Keys of a terminal, without echo. A drop restores the terminal's modes.
#[derive(Debug)]
pub struct Keys<'fd> {
    terminal: BorrowedFd<'fd>,
    before: Termios,
}

impl<'fd> Keys<'fd> {
    /// Reads keys of this terminal, Ctrl-C included.
    ///
    /// # Errors
    /// The descriptor is no terminal.
    pub fn new(terminal: &'fd impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd();
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &modes)?;
        Ok(Self { terminal, before })
    }

    /// Waits for the next key; `None` if no key was pressed for this long.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn wait(&self, time: Duration) -> io::Result<Option<u8>> {
        if !ready_within(self.terminal, Interest::READ, time)?.readable {
            return Ok(None);
        }
        let mut key = [0];
        match rustix::io::read(self.terminal, &mut key)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Some(key[0])),
        }
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        // The terminal may have gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::fs::{File, OpenOptions};

    /// A terminal, and the person's end of it.
    fn terminal() -> (File, File) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).expect("a terminal");
        grantpt(&person).and_then(|()| unlockpt(&person)).expect("ours");
        let name = ptsname(&person, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("text");
        let terminal = OpenOptions::new().read(true).write(true).open(name).expect("ours");
        (terminal, File::from(person))
    }

    #[test]
    fn keys_come_alone_and_the_terminal_stays_as_it_was() {
        let (terminal, person) = terminal();
        let modes = || tcgetattr(&terminal).expect("a terminal").local_modes;
        let before = modes();
        let keys = Keys::new(&terminal).expect("a terminal");
        assert_eq!(keys.wait(Duration::ZERO).expect("it is there"), None);
        for key in [b'q', INTERRUPT] {
            rustix::io::write(&person, &[key]).expect("it is there");
            assert_eq!(keys.wait(Duration::from_secs(10)).expect("it is there"), Some(key));
        }
        assert_ne!(modes(), before);
        drop(keys);
        assert_eq!(modes(), before);
    }

    #[test]
    fn long_lines_are_wrapped_at_words_and_indented() {
        assert_eq!(hanging("one two three", 13, 2), "one two three");
        assert_eq!(hanging("one two three", 12, 2), "one two\n  three");
        assert_eq!(hanging("one two three four", 9, 2), "one two\n  three\n  four");
        assert_eq!(hanging("longer-than-a-line so", 8, 2), "longer-than-a-line\n  so");
        assert_eq!(hanging("a b", 1, 2), "a\n  b");
    }

    #[test]
    fn what_is_no_terminal_has_no_keys_and_no_size() {
        let null = File::open("/dev/null").expect("it is everywhere");
        assert!(Keys::new(&null).is_err() && size(null.as_fd()).is_none());
    }
}
