//! Files of the master: logs, its number, and those of sockets. It touches none of them itself
//! while it serves.
use super::{
    clock,
    errand::{Ended, Errand, PidFiles, Purpose, remove_now},
    generations::Generations,
};
use crate::messages;
use regatta_sys::{Bell, socket::Place, unix::SocketFile, wait::Poll};
use std::{
    io, mem,
    path::{Path, PathBuf},
};

impl Generations {
    /// Removes the files of sockets that listen at such places.
    pub(super) fn remove_files(&mut self, is_such: impl Fn(&Place) -> bool) {
        let is_gone = |file: &mut SocketFile| is_such(&Place::Unix(file.path().to_owned()));
        let gone: Vec<SocketFile> = self.files.extract_if(.., is_gone).collect();
        if !gone.is_empty() {
            self.start_files(&PidFiles::default(), &gone);
        }
    }

    fn start_files(&mut self, numbers: &PidFiles, sockets: &[SocketFile]) {
        match Errand::files(numbers, sockets, clock::now().tick) {
            Ok(errand) => self.errands.all.push(errand),
            Err(error) => {
                self.errors.note(
                    messages::SERVER_FILE_FAILED,
                    format_args!("files of the server: {error}"),
                );
            }
        }
    }

    /// Sets the path of the file with the master's number. An image that follows another writes the
    /// file only if its path changes.
    ///
    /// # Errors
    /// The file cannot be written, and this is the first image: no workers serve yet.
    pub(super) fn set_pid_file(&mut self, path: Option<&Path>) -> io::Result<()> {
        let before = mem::replace(&mut self.pid_file, path.map(Path::to_owned));
        if self.pid_file == before {
            return Ok(());
        }
        let numbers = PidFiles { write: self.pid_file.clone(), remove: before };
        if self.has_old() {
            self.start_files(&numbers, &[]);
            return Ok(());
        }
        numbers.apply(std::process::id()).inspect_err(|_| self.pid_file = None)
    }

    /// Has missing logs made; then [`Generations::on_errand_exit`] reports so.
    pub(super) fn reopen_logs(&mut self) {
        if self.errands.all.iter().any(|errand| errand.purpose == Purpose::Logs) {
            self.errands.logs_again = true;
            return;
        }
        match Errand::logs(self.access.as_deref(), &self.errors, clock::now().tick) {
            Ok(errand) => self.errands.all.push(errand),
            Err(error) => self.still_logging(&error.to_string()),
        }
    }

    fn still_logging(&self, fault: &str) {
        let what = format_args!("still logging to the old file: {fault}");
        self.errors.note(messages::LOG_NOT_REOPENED, what);
    }

    /// Reaps an errand. True if the logs have been made: workers are to reopen them, and those of
    /// earlier images have been notified.
    pub(super) fn on_errand_exit(&mut self, key: u64, poller: &mut Poll) -> io::Result<bool> {
        let Some(ended) = self.errands.reap(key, poller)? else { return Ok(false) };
        let Ended { purpose, complaints, file, is_late } = ended;
        for complaint in &complaints {
            match purpose {
                Purpose::Logs => self.still_logging(complaint),
                Purpose::Files => {
                    let what = format_args!("files of the server: {complaint}");
                    self.errors.note(messages::SERVER_FILE_FAILED, what);
                }
            }
        }
        if purpose != Purpose::Logs {
            return Ok(false);
        }
        if let Some(Err(fault)) = file.map(|file| self.errors.install(file.into())) {
            self.still_logging(&fault.to_string());
        }
        if mem::take(&mut self.errands.logs_again) {
            self.reopen_logs();
            self.errands.watch(poller)?;
        }
        if is_late {
            // Workers would wait for the same disk.
            return Ok(false);
        }
        for old in &self.old {
            old.arena.control().reopen_logs();
            old.bells.iter().for_each(Bell::ring);
        }
        Ok(true)
    }

    /// Removes all files that are the server's own, and waits for that for a limited time.
    pub(super) fn clean_up(&mut self) {
        let sockets = mem::take(&mut self.files);
        let remove: Option<PathBuf> = self.pid_file.take();
        if !sockets.is_empty() || remove.is_some() {
            let numbers = PidFiles { write: None, remove };
            match Errand::files(&numbers, &sockets, clock::now().tick) {
                Ok(errand) => errand.wait(),
                Err(_) => remove_now(&sockets, numbers.remove.as_deref()),
            }
        }
        self.finish_errands();
    }

    /// Waits for the errands that are in progress, for a limited time.
    pub(super) fn finish_errands(&mut self) {
        mem::take(&mut self.errands.all).into_iter().for_each(Errand::wait);
    }
}
