//! The arms that a claim is about, found by their options.

use super::evidence::{Evidence, Found, option};
use crate::experiment::Target;

/// Whether `sendfile` blocks.
pub(super) fn blocks(target: &Target) -> bool {
    option(target, "event.send") == "blocking"
}

/// How many processes it has; one if it does not say.
pub(super) fn processes(target: &Target) -> u32 {
    option(target, "event.processes").parse().map_or(1, |processes: u32| processes.max(1))
}

/// How many copies of the server there are, each with an address or port of its own.
pub(super) fn copies(target: &Target) -> u32 {
    option(target, "event.copies").parse().map_or(1, |copies: u32| copies.max(1))
}

/// How many connections it takes; all if it does not say.
pub(crate) fn cap(target: &Target) -> u32 {
    option(target, "limits.connections_max").parse().unwrap_or(u32::MAX)
}

/// One event loop whose `sendfile` does not block: SPED, or else SYMPED with one process.
fn loops<'a>(run: &Evidence<'a>) -> Vec<&'a Target> {
    let sped = run.of("sped").filter(|target| !blocks(target));
    let symped =
        run.of("symped").filter(|one| !blocks(one) && option(one, "event.processes") == "1");
    sped.chain(symped).collect()
}

/// The arm with one event loop, of several the one that takes the most connections.
pub(super) fn one<'a>(run: &Evidence<'a>) -> Found<&'a Target> {
    let all = loops(run);
    let most = all.iter().map(|target| cap(target)).max();
    all.into_iter().find(|target| Some(cap(target)) == most).ok_or_else(|| "sped".to_owned())
}

/// SYMPED with several processes that takes as many connections as another arm does.
fn several<'a>(run: &Evidence<'a>, like: &Target) -> Vec<&'a Target> {
    let symped = run.of("symped").filter(|one| !blocks(one) && processes(one) > 1);
    symped.filter(|one| cap(one) == cap(like)).collect()
}

/// SYMPED with the most processes, under the same limit as another arm.
pub(super) fn most_symped<'a>(run: &Evidence<'a>, like: &Target) -> Found<&'a Target> {
    let most = several(run, like).into_iter().max_by_key(|target| processes(target));
    most.ok_or_else(|| "symped with several processes".to_owned())
}

/// A preset of [H], with as many accepts at a time as it comes with.
pub(super) fn preset<'a>(run: &Evidence<'a>, architecture: &str) -> Found<&'a Target> {
    let plain = |target: &&Target| !target.config.contains_key("accept.count");
    run.of(architecture).find(plain).ok_or_else(|| format!("an arm of {architecture}"))
}

/// The event-driven arms whose `sendfile` does not block, one at least.
pub(super) fn events<'a>(run: &Evidence<'a>) -> Found<Vec<&'a Target>> {
    const EVENTS: [&str; 6] = ["sped", "symped", "shared-symped", "n-copy", "amped", "laio"];
    let is_one = |one: &&Target| EVENTS.contains(&option(one, "server.architecture"));
    let all: Vec<&Target> = run.regattas().filter(|one| is_one(one) && !blocks(one)).collect();
    if all.is_empty() { Err("an event-driven server".to_owned()) } else { Ok(all) }
}

/// How the user threads of a name send files, and with how many helpers.
const KNOTS: [(&str, &str, u32); 3] =
    [("knot-b", "blocking", 100), ("knot-c", "inline", 100), ("knot-nb", "try-first", 25)];

/// The arms with a user thread for each connection that send files so.
pub(super) fn sending<'a>(run: &Evidence<'a>, how: &str) -> Vec<&'a Target> {
    let usual = |one: &Target| {
        let known = KNOTS.iter().find(|(name, ..)| *name == option(one, "server.architecture"))?;
        Some(one.config.get("fiber.send").map_or(known.1, String::as_str) == how)
    };
    run.regattas().filter(|one| usual(one) == Some(true)).collect()
}

/// The first of them.
pub(super) fn sends<'a>(run: &Evidence<'a>, how: &str) -> Found<&'a Target> {
    let first = sending(run, how).into_iter().next();
    first.ok_or_else(|| format!("user threads with fiber.send={how} (Knot)"))
}

/// How many helpers the user threads of an arm have.
pub(super) fn helpers(target: &Target) -> u32 {
    let known = KNOTS.iter().find(|(name, ..)| *name == option(target, "server.architecture"));
    let usual = known.map_or(0, |(_, _, helpers)| *helpers);
    target.config.get("fiber.helpers").map_or(usual, |said| said.parse().unwrap_or(usual))
}
