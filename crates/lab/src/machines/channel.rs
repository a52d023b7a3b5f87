//! The way to the agent on the other machine: questions there, answers back, one after the other.

use super::ask::{Ask, Asked, LINE_BYTES_MAX, Said};
use super::ssh::Connection;
use crate::group::{Group, INTERRUPTED};
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, PipeWriter, Read, Write, pipe};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the agent is told that we are there.
const ALIVE: Duration = Duration::from_secs(5);
/// How long the agent has to end what it started, and to remove its files.
const END_MAX: Duration = Duration::from_secs(15);
/// How often a wait for an answer looks whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The agent, and the two pipes to it.
#[derive(Debug)]
pub(super) struct Channel {
    /// None once nothing more is to be asked.
    input: Arc<Mutex<Option<PipeWriter>>>,
    answers: Receiver<String>,
    number: Cell<u64>,
    lost: RefCell<Option<String>>,
    agent: RefCell<Group>,
}

impl Channel {
    /// Starts the agent that lies in `directory`.
    pub(super) fn start(connection: &Connection, directory: &str) -> Result<Self, String> {
        let named = |error: std::io::Error| format!("a pipe to ssh: {error}");
        let (stdin, mut input) = pipe().map_err(named)?;
        let (output, stdout) = pipe().map_err(named)?;
        let script = format!("exec {directory}/regatta-lab lab agent {directory}");
        let mut ssh = connection.command(&script);
        ssh.stdin(stdin).stdout(stdout).stderr(Stdio::inherit());
        let agent = Group::start(&mut ssh, &[], END_MAX)?;
        // Its ends of the pipes are its alone.
        drop(ssh);
        let (lines, answers) = channel();
        let reads = move || {
            let mut output = BufReader::new(output);
            let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
            loop {
                let mut line = String::new();
                let read = output.by_ref().take(most).read_line(&mut line);
                if read.is_err() || !line.ends_with('\n') || lines.send(line).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().spawn(reads);
        started.map_err(|error| format!("a thread: {error}"))?;
        input.write_all(b"\n").map_err(named)?;
        let input = Arc::new(Mutex::new(Some(input)));
        let ours = Arc::clone(&input);
        let says = move || {
            loop {
                thread::sleep(ALIVE);
                let mut input = ours.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(input) = &mut *input else { return };
                if input.write_all(b"\n").is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().spawn(says);
        started.map_err(|error| format!("a thread: {error}"))?;
        let (number, lost) = (Cell::new(0), RefCell::new(None));
        Ok(Self { input, answers, number, lost, agent: RefCell::new(agent) })
    }

    /// Why nothing more can be asked; None: it can.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        ask: Ask,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<T, String> {
        self.send(ask)?;
        self.answer(limit, stop)
    }

    /// Asks, and leaves the answer for later.
    pub(super) fn send(&self, ask: Ask) -> Result<(), String> {
        let number = self.number.get() + 1;
        self.number.set(number);
        let text = serde_json::to_string(&Asked { number, ask });
        let mut text = text.map_err(|error| error.to_string())?;
        text.push('\n');
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = input.as_mut().is_some_and(|input| input.write_all(text.as_bytes()).is_ok());
        if sent { Ok(()) } else { Err(self.lose("the connection is lost")) }
    }

    /// Waits for the answer to what was asked last.
    pub(super) fn answer<T: DeserializeOwned>(
        &self,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<T, String> {
        if let Some(why) = self.lost() {
            return Err(why);
        }
        let end = Instant::now() + limit;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(self.lose(INTERRUPTED));
            }
            let line = match self.answers.recv_timeout(LOOK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => continue,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = limit.as_secs();
                    return Err(self.lose(&format!("no answer within {seconds} s")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.lose("the connection is lost, or the agent was killed"));
                }
            };
            let said: Said = serde_json::from_str(&line)
                .map_err(|error| self.lose(&format!("an answer that is none: {error}")))?;
            // An earlier one is of a question that nobody waits for any more.
            if said.number == self.number.get() {
                let value = said.answer?;
                return serde_json::from_value(value).map_err(|error| error.to_string());
            }
        }
    }

    fn lose(&self, why: &str) -> String {
        *self.lost.borrow_mut() = Some(why.to_owned());
        why.to_owned()
    }

    /// Tells the agent to end, and waits for it: whether it has left nothing.
    pub(super) fn end(&self) -> bool {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let ended = self.agent.borrow_mut().wait(END_MAX, || false);
        ended.is_ok_and(|status| status.success())
    }
}
