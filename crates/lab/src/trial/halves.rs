//! The two halves of a trial, server and load, each here or on the other machine.

use super::Bench;
use crate::env;
use crate::experiment::Machine;
use crate::journal::manifest::Half;
use crate::machines::Far;
use crate::machines::served::{Served, Wanted};
use crate::record::Cell;
use crate::servers::Site;
use crate::servers::process::{Launch, Priority, Running};
use crate::watch::Seen;
use crate::watch::perf::Recorder;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A server that is being measured.
pub(super) struct ServerHalf<'a> {
    /// Where it is to be asked: first, and also.
    addresses: (SocketAddr, Vec<SocketAddr>),
    at: At<'a>,
}

/// Where it runs.
enum At<'a> {
    Here(Box<Served<'a>>),
    There { far: &'a Far, seconds: f64, stop: &'a AtomicBool },
}

/// A load that is on.
pub(super) enum LoadHalf<'a> {
    Here(Running),
    There { far: &'a Far, files: [&'a Path; 2] },
}

impl<'a> Bench<'a> {
    /// The other machine, if it has that half.
    pub(crate) fn far(&self, half: Half) -> Option<&'a Far> {
        self.far.filter(|far| far.half() == half)
    }

    pub(super) fn serve(&self, wanted: Wanted, cell: &Cell) -> Result<ServerHalf<'_>, String> {
        if let Some(far) = self.far(Half::Server) {
            let seconds = wanted.warm_s + wanted.window_s;
            let addresses = far.serve(wanted, self.stop)?;
            return Ok(ServerHalf { addresses, at: At::There { far, seconds, stop: self.stop } });
        }
        let host: Result<IpAddr, String> =
            self.far.map_or(Ok(Ipv4Addr::LOCALHOST.into()), Far::near);
        let (scratch, programs, stop) = (self.scratch.as_path(), self.programs, self.stop);
        let site = Site { scratch, programs, host: host?, stop };
        let served = Served::start(wanted, || self.rooms.enter(cell), site)?;
        let addresses = (served.server.address, served.server.also.clone());
        Ok(ServerHalf { addresses, at: At::Here(Box::new(served)) })
    }

    /// Starts a load of `server`, which prints into two files.
    pub(super) fn start_load<'l>(
        &self,
        words: Vec<OsString>,
        machine: &Machine,
        server: &ServerHalf<'_>,
        [out, errors]: [&'l Path; 2],
        limit: Duration,
    ) -> Result<LoadHalf<'l>, String>
    where
        'a: 'l,
    {
        if let Some(far) = self.far(Half::Load) {
            far.begin_load(&words, machine.load_cpus(), machine.realtime, limit)?;
            return Ok(LoadHalf::There { far, files: [out, errors] });
        }
        let inside = match &server.at {
            At::Here(served) => served.room().inside(env::Place::Client),
            At::There { .. } => None,
        };
        let launch = Launch {
            cpus: machine.load_cpus(),
            priority: Priority::Everything.if_asked(machine.realtime),
            inside,
            ..Launch::plain(words, out, errors)
        };
        Running::start(&launch).map(LoadHalf::Here)
    }
}

impl ServerHalf<'_> {
    /// `HOST:PORT`.
    pub(super) fn host(&self) -> String {
        self.addresses.0.to_string()
    }

    /// `HOST:PORT` that speaks TLS.
    pub(super) fn encrypted(&self) -> Option<String> {
        match &self.at {
            At::Here(served) => served.server.encrypted.map(|address| address.to_string()),
            At::There { .. } => None,
        }
    }

    /// `HOST:PORT` that speaks HTTP/2 in the clear.
    pub(super) fn clear_http2(&self) -> String {
        let apart = match &self.at {
            At::Here(served) => served.server.clear_http2,
            At::There { .. } => None,
        };
        apart.map_or_else(|| self.host(), |address| address.to_string())
    }

    /// `http://HOST:PORT`.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.host())
    }

    /// What a load's command line says of its further addresses.
    pub(super) fn also(&self) -> Vec<OsString> {
        let flag = |address: &SocketAddr| ["--also".into(), address.to_string().into()];
        self.addresses.1.iter().flat_map(flag).collect()
    }

    /// Watches it from the load's start, which is now, to the end of the measurement. With
    /// `recorder`, which looks at this machine, it is here.
    pub(super) fn watch(&mut self, recorder: Option<&mut Recorder<'_>>) -> Result<(), String> {
        match &mut self.at {
            At::Here(served) => served.watch(recorder),
            At::There { far, seconds, stop } => far.watch(*seconds, stop),
        }
    }

    /// Ends it once its load has ended: what was seen of it.
    pub(super) fn end(self) -> Result<Seen, String> {
        match self.at {
            At::Here(served) => served.end(),
            At::There { far, stop, .. } => far.end(stop),
        }
    }
}

impl LoadHalf<'_> {
    /// Waits for its end: its exit code.
    pub(super) fn wait(self, limit: Duration, stop: &AtomicBool) -> Result<Option<i32>, String> {
        match self {
            Self::Here(running) => running.wait(limit, stop),
            Self::There { far, files } => far.load(files, limit, stop),
        }
    }
}
