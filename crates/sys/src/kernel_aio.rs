//! Linux's own asynchronous I/O (io_submit(2)), for reads.
//!
//! Through the page cache it is asynchronous in name only. Where a page is missing, `io_submit`
//! itself waits for the disk, and the completion is there when it returns. Only direct I/O is
//! really asynchronous. This module exists to measure that.
use crate::{
    Read, StaticFile, fault, hook::Call, read::room, retry_interrupted, simulated_disk::before_read,
};
use regatta_op::{Fault, ReadReq};
use rustix::io::Errno;
use std::{
    io,
    marker::PhantomData,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd},
    ptr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Completions that one call takes.
const EVENTS: usize = 64;

/// `IOCB_CMD_PREAD`.
const PREAD: u16 = 0;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Debug, Default)]
struct Iocb {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    fildes: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    bell: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    result2: i64,
}

/// A read in the kernel, with its owner's token.
struct Running<T> {
    iocb: Iocb,
    req: ReadReq<StaticFile>,
    token: T,
}

/// Result of starting a read.
#[derive(Debug)]
pub enum Started<T> {
    /// [`KernelAio::finished`] will report it.
    InFlight,
    /// The read has failed.
    Over(T, Read),
    /// No room for the read now.
    Refused(T, ReadReq<StaticFile>),
}

/// A context of asynchronous reads, for all threads of a process. Each read is reported once, with
/// the token that it was started with.
#[derive(Debug)]
pub struct KernelAio<T> {
    /// An `aio_context_t`.
    id: libc::c_ulong,
    in_flight: AtomicUsize,
    /// Tokens travel from the thread that starts a read to the one that finds it complete.
    tokens: PhantomData<Mutex<T>>,
}

impl<T> KernelAio<T> {
    /// A context for `reads_max` reads at once.
    ///
    /// # Errors
    /// `EAGAIN`: that exceeds what is left of `fs.aio-max-nr` on this machine. `ENOSYS`: the kernel
    /// has no such contexts.
    pub fn new(reads_max: u32) -> io::Result<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the number of the new context into a word of ours.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, reads_max, &raw mut id) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { id, in_flight: AtomicUsize::new(0), tokens: PhantomData })
    }

    /// Starts a read, and waits for the disk if the file is not read directly.
    pub fn start(&self, mut req: ReadReq<StaticFile>, token: T) -> Started<T> {
        before_read(&req.file, req.at, req.len);
        let bytes = match room(&mut req) {
            Ok(bytes) => bytes as u64,
            Err(fault) => return Started::Over(token, (req.buffer, Err(fault))),
        };
        let Ok(offset) = i64::try_from(req.at) else {
            return Started::Over(token, (req.buffer, Err(Fault::Other(libc::EINVAL))));
        };
        let iocb = Iocb {
            opcode: PREAD,
            fildes: req.file.as_fd().as_raw_fd().unsigned_abs(),
            buffer: req.buffer.as_mut_ptr().expose_provenance() as u64,
            bytes,
            offset,
            ..Iocb::default()
        };
        let running = Box::into_raw(Box::new(Running { iocb, req, token }));
        self.in_flight.fetch_add(1, Relaxed);
        // SAFETY: `running` was made above, and the kernel does not have it yet.
        unsafe { (*running).iocb.data = running.expose_provenance() as u64 };
        // SAFETY: `running` was made above and is not null, so this is an address within its box.
        let mut iocb = unsafe { &raw mut (*running).iocb };
        let submitted = retry_interrupted(Call::Read, || {
            // SAFETY: one pointer to an iocb, which the kernel copies during the call. Its buffer
            // has room for as many bytes as it says. The buffer stays in place: it is in the box,
            // which no code owns until the completion is reported, and which is leaked if that
            // never is.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.id, 1_usize, &raw mut iocb) };
            if taken == 1 { Ok(()) } else { Err(last_error()) }
        });
        let Err(errno) = submitted else { return Started::InFlight };
        self.in_flight.fetch_sub(1, Relaxed);
        // SAFETY: the kernel has refused it, so this is still the only pointer to the box.
        let Running { req, token, .. } = *unsafe { Box::from_raw(running) };
        if errno == Errno::AGAIN {
            return Started::Refused(token, req);
        }
        Started::Over(token, (req.buffer, Err(fault(&errno.into()))))
    }

    /// Reads started and not yet reported.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Adds completed reads to `out`; waits up to `patience` for one. Fewer bytes than were asked
    /// for mean that the file shrank.
    ///
    /// # Errors
    /// None that the kernel documents for a context like this one.
    pub fn finished(&self, patience: Duration, out: &mut Vec<(T, Read)>) -> io::Result<()> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let least = i64::from(!patience.is_zero());
        let seconds = patience.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        let timeout = libc::timespec { tv_sec: seconds, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: room for as many events as is said, and a time, both alive during the call.
        let taken = unsafe {
            let (events, timeout) = (events.as_mut_ptr(), &raw const timeout);
            libc::syscall(libc::SYS_io_getevents, self.id, least, EVENTS as i64, events, timeout)
        };
        let Ok(taken) = usize::try_from(taken) else {
            let errno = last_error();
            return if errno == Errno::INTR { Ok(()) } else { Err(errno.into()) };
        };
        self.in_flight.fetch_sub(taken, Relaxed);
        for event in &events[..taken] {
            // SAFETY: the kernel has written the first `taken` events.
            let event = unsafe { event.assume_init_ref() };
            let running: *mut Running<T> = ptr::with_exposed_provenance_mut(address(event.data));
            // SAFETY: `data` is the address of the box that was given away with this read in
            // `start`, by a context of the same type. Each completion is reported to one caller,
            // once, and the kernel no longer touches the buffer.
            let Running { mut req, token, .. } = *unsafe { Box::from_raw(running) };
            let read = match usize::try_from(event.result) {
                Ok(read) => {
                    // SAFETY: the kernel has written this many bytes, within the room that `start`
                    // passed to it.
                    unsafe { req.buffer.set_len(read) };
                    Ok(())
                }
                Err(_) => Err(Fault::Other(i32::try_from(-event.result).unwrap_or(libc::EIO))),
            };
            out.push((token, (req.buffer, read)));
        }
        Ok(())
    }
}

/// Leaves reads in flight to the kernel until the process ends: ending the context would wait.
impl<T> Drop for KernelAio<T> {
    fn drop(&mut self) {
        let mut over = Vec::new();
        while self.finished(Duration::ZERO, &mut over).is_ok() && !over.is_empty() {
            over.clear();
        }
        if self.in_flight() == 0 {
            // SAFETY: takes a number; no read is in flight whose memory could be touched.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        }
    }
}

fn address(data: u64) -> usize {
    usize::try_from(data).expect("it was an address")
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
