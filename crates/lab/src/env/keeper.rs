//! The keeper: a process that makes an environment, holds its namespaces, and undoes it when its
//! owner is done or dead.

use super::disk::MountedDisk;
use super::groups::Hierarchies;
use super::ledger::Ledger;
use super::network::{self, Link};
use super::servant::{Servant, die_with_keeper, first, is_abandoned, order, say};
use super::spec::{Pages, REALTIME_MAX, Spec};
use super::{Record, pages, slow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which a waiting process checks for signals.
const LOOK: Duration = Duration::from_millis(200);
const TASK_DELAYS: &str = "/proc/sys/kernel/task_delayacct";

/// Makes the environment that standard input asks for, reports its state on standard output, waits
/// for the end of standard input, and undoes it. Fails with what could not be undone. Parts that
/// could not be made are reported to the owner.
pub(super) fn run() -> Result<(), String> {
    // A session of its own: Ctrl-C in the terminal is for the owner, whose end we then see.
    let _ = rustix::process::setsid();
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [1, 2, 15] {
        signal_hook::flag::register(signal, Arc::clone(&leave)).map_err(|e| e.to_string())?;
    }
    let spec: Spec = order()?;
    let mut keeper = Keeper { ledger: Ledger::new()?, disk: None, link: None, slow: None };
    let made = keeper.make(&spec);
    say(&serde_json::to_string(&made).map_err(|error| error.to_string())?);
    while made.is_ok() && !leave.load(Ordering::Relaxed) && !is_abandoned(LOOK) {}
    keeper.undo()
}

#[derive(Debug)]
struct Keeper {
    ledger: Ledger,
    disk: Option<MountedDisk>,
    link: Option<Link>,
    slow: Option<Servant>,
}

impl Keeper {
    fn make(&mut self, spec: &Spec) -> Result<Record, String> {
        let mut record = Record::begin(spec, self.ledger.id())?;
        if spec.accounting {
            self.ledger.set(Path::new(TASK_DELAYS), "1")?;
        }
        if let Some(network) = &spec.network {
            let link = Link::make(network)?;
            (record.settings, record.left_alone) = network::apply(network, spec.profile)?;
            record.network = Some(link.describe(network)?);
            self.link = Some(link);
        }
        still_wanted()?;
        if let Some(disk) = &spec.disk {
            let mounted = MountedDisk::make(spec, disk, &mut self.ledger)?;
            record.root = Some(mounted.root.clone());
            record.disk = Some(mounted.described.clone());
            self.disk = Some(mounted);
        }
        if spec.cpu.left_percent > 0 {
            let orders =
                slow::Orders { cpus: spec.cpu.server.clone(), left_percent: spec.cpu.left_percent };
            let wrapper = first(REALTIME_MAX, "env");
            let slow = self.slow.insert(Servant::start(wrapper, "slow", &orders)?);
            slow.hear()?;
        }
        still_wanted()?;
        // The groups come last, so that they are undone first, and all processes with them.
        record.groups = Hierarchies::here().make(spec, &mut self.ledger)?;
        record.memory_bytes = record.groups.memory_bytes();
        if let Some(root) = record.root.as_deref() {
            match spec.pages {
                Pages::AsIs => {}
                // A new disk's pages and names are cold; opening its files would read the names.
                Pages::Cold if spec.disk.is_some() => {}
                Pages::Cold => pages::drop_all(root)?,
                Pages::Warm => {
                    // Pages that are there already count for the group that brought them.
                    if spec.disk.is_none() {
                        pages::drop_all(root)?;
                    }
                    pages::warm(root, &record.groups)?;
                }
            }
        }
        if let Some(disk) = &mut self.disk {
            disk.store.go_on()?;
        }
        record.namespaces(spec, self.link.as_ref().and_then(Link::client));
        Ok(record)
    }

    fn undo(mut self) -> Result<(), String> {
        let undone = self.ledger.undo();
        if let Some(slow) = self.slow.take() {
            slow.dismiss();
        }
        if let Some(disk) = self.disk.take() {
            disk.end();
        }
        if let Some(link) = self.link.take() {
            link.end();
        }
        undone
    }
}

fn still_wanted() -> Result<(), String> {
    if is_abandoned(Duration::ZERO) { Err("nobody wants it any more".to_owned()) } else { Ok(()) }
}

/// Holds a namespace until standard input ends.
pub(super) fn hold() -> Result<(), String> {
    die_with_keeper()?;
    let cpus: Vec<usize> = order()?;
    crate::group::run_on(&cpus)?;
    say("ready");
    while !is_abandoned(LOOK) {}
    Ok(())
}
