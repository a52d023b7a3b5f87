//! A channel between two processes: records and open files (unix(7), `SOCK_SEQPACKET`).
use rustix::{
    io::{Errno, IoSlice, IoSliceMut},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
        sendmsg, socketpair,
    },
};
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Most open files that travel with one record.
pub const FILES_MAX: usize = 4;

/// End of a channel. Each record arrives whole.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Two ends of a new channel.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    /// Adopts the end of a channel that an earlier program of this process, or of its parent, had.
    #[must_use]
    pub const fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends a record with open files. Does not wait for room.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; `BrokenPipe` if the other end is closed.
    ///
    /// # Panics
    /// With more than [`FILES_MAX`] files.
    pub fn send(&self, record: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(files));
            assert!(fits, "at most {FILES_MAX} files with a record");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.0, &[IoSlice::new(record)], &mut control, flags) {
                Err(Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Receives a record into `buffer`, and its open files into `files`. 0 bytes mean that the
    /// other end is closed. With `wait`, waits for a record.
    ///
    /// # Errors
    /// `WouldBlock` if there is no record and `wait` is false. `InvalidData` if the record is
    /// longer than the buffer, or this process has no room for the files, which are then lost.
    pub fn recv(
        &self,
        buffer: &mut [u8],
        files: &mut Vec<OwnedFd>,
        wait: bool,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        flags.set(RecvFlags::DONTWAIT, !wait);
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Err(Errno::INTR) => {}
                result => break result?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                files.extend(passed);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            files.clear();
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(received.bytes)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn records_and_files_arrive_whole() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (mut buffer, mut files) = ([0; 8], Vec::new());
        let nothing = ours.recv(&mut buffer, &mut files, false).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        let path = std::env::temp_dir().join(format!("regatta-channel-{}", std::process::id()));
        let mut file = std::fs::File::options();
        let mut file = file.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(b"content").unwrap();
        theirs.send(b"one", &[file.as_fd(), file.as_fd()]).unwrap();
        theirs.send(b"two", &[]).unwrap();
        assert_eq!(ours.recv(&mut buffer, &mut files, true).unwrap(), 3);
        assert_eq!(&buffer[..3], b"one");
        assert_eq!(files.len(), 2);
        let mut passed = std::fs::File::from(files.pop().unwrap());
        let mut text = String::new();
        passed.rewind().unwrap();
        passed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        files.clear();
        assert_eq!(ours.recv(&mut buffer, &mut files, true).unwrap(), 3);
        assert!(files.is_empty());
        theirs.send(&[0; 9], &[file.as_fd()]).unwrap();
        let long = ours.recv(&mut buffer, &mut files, true).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
        assert!(files.is_empty());
        drop(theirs);
        assert_eq!(ours.recv(&mut buffer, &mut files, true).unwrap(), 0);
        assert_eq!(ours.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
