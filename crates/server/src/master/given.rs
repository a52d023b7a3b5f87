//! Sockets from the service manager. It keeps them when this server ends, and the next one finds
//! connections in them that arrived meanwhile.
use super::generations::{DROPPED_MS, Generations};
use crate::{Failure, SocketFault, WorkFault, config::address::Place, given};
use regatta_sys::{clock, socket};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

impl Generations {
    /// Takes sockets from the service manager; the image before would have handed them over.
    pub(super) fn take_given(&mut self) -> Result<(), Failure> {
        let taken = given::take().map_err(|faults| Failure::Work(WorkFault::Given(faults)))?;
        for (place, socket) in taken {
            self.inherited.push(((place.to_string(), socket), false));
            self.given.push(place);
        }
        Ok(())
    }

    /// True if the socket there was given.
    pub(super) fn is_given(&self, place: &Place) -> bool {
        self.given.contains(place)
    }

    /// Faults of given sockets that are not used: connections to them would wait without an answer.
    pub(super) fn left_of_given(&self) -> Vec<SocketFault> {
        let is_given = |socket: &OwnedFd| {
            socket::place(socket.as_fd()).is_ok_and(|place| self.is_given(&place))
        };
        let left = self.inherited.iter().filter(|((_, socket), taken)| !taken && is_given(socket));
        left.map(|((asked, _), _)| SocketFault::Unnamed(asked.clone())).collect()
    }

    /// Leaves the given sockets unchanged at the end of the server. The others stop listening once
    /// workers, which therefore leave as well, have emptied their backlogs.
    pub(super) fn drop_own(&mut self, sockets: &[OwnedFd]) -> io::Result<()> {
        if self.given.is_empty() {
            return Ok(());
        }
        for socket in sockets {
            let place = socket::place(socket.as_fd())?;
            if !self.is_given(&place) {
                let own = (place.to_string(), socket.try_clone()?);
                self.inherited.push((own, false));
            }
        }
        self.dropped_at = clock::now().tick.after(DROPPED_MS);
        Ok(())
    }
}
