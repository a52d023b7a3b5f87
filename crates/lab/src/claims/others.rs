//! Claims on other servers, kernels and workloads: S-13, S-14, S-16, S-17, G-5, G-6, P-3.

use super::Finding;
use super::evidence::{Evidence, Found, option, show};
use crate::programs::Other;
use crate::spec::{Program, Target};
use crate::stats::Effect;

/// Our best against nginx and lighttpd, all cached.
pub(super) fn s13(run: &Evidence<'_>) -> Found<Finding> {
    run.processors(1)?;
    let (mut told, mut findings) = (Vec::new(), Vec::new());
    for (program, limit) in [(Other::Nginx, 1.05), (Other::Lighttpd, 1.2)] {
        let theirs = run
            .run
            .experiment
            .targets
            .iter()
            .find(|target| target.program == Program::Other(program));
        let theirs = theirs.ok_or("nginx and lighttpd beside ours")?;
        let mut best: Option<(&Target, Effect)> = None;
        for ours in run.regattas() {
            let effect = run.peak_ratio(&ours.name, &theirs.name)?;
            if best.as_ref().is_none_or(|(_, most)| effect.ratio > most.ratio) {
                best = Some((ours, effect));
            }
        }
        let (ours, effect) = best.ok_or("a target of ours")?;
        told.push(format!("{}'s peak over {}'s: {}", ours.name, theirs.name, show(&effect)));
        findings.push(Finding::surely(effect.ratio >= limit, &effect, limit, String::new(), ""));
    }
    Ok(together(&findings, told.join("; "), "1.05 of nginx and 1.2 of lighttpd are asked"))
}

/// One that fails fails all, and one that is open leaves all open.
fn together(findings: &[Finding], ours: String, why: &str) -> Finding {
    use super::Verdict::{CannotTell, Fails};
    let any = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    if any(Fails) {
        Finding::of(false, ours, why)
    } else if any(CannotTell) {
        Finding::undecided(ours, format!("an interval holds its limit: more blocks; {why}"))
    } else {
        Finding::of(true, ours, why)
    }
}

/// A server with a process or thread for each connection reads from the disk where others need not.
pub(super) fn s14(run: &Evidence<'_>) -> Found<Finding> {
    let is_apache = |target: &&Target| target.program == Program::Other(Other::ApacheWorker);
    let apache = run.run.experiment.targets.iter().find(is_apache);
    let apache = apache.ok_or("a server with a thread for each connection: apache-worker")?;
    let asks = |target: &Target| {
        let cell = run.top(&target.name)?;
        Ok::<f64, String>(
            1e3 * run.metric(&cell, "disk_requests_per_s")? / run.metric(&cell, "good_per_s")?,
        )
    };
    let theirs = asks(apache)?;
    let ours = run.regattas().map(asks).collect::<Found<Vec<f64>>>()?;
    let most = ours.into_iter().fold(0.0, f64::max);
    let told = format!("{theirs:.2} disk requests for 1,000 replies of apache, {most:.2} of ours");
    let why = "memory just above the files, at the highest rate";
    Ok(Finding::of(theirs > 1.0 && theirs >= 5.0 * most, told, why))
}

/// The arms with the highest and the lowest peak compared.
fn extremes(run: &Evidence<'_>, arms: &[&str]) -> Found<Effect> {
    let mut peaks = Vec::new();
    for arm in arms {
        let all: Vec<f64> = run.peaks(arm, "good_per_s")?.into_values().collect();
        peaks.push((crate::stats::median(&all), *arm));
    }
    peaks.sort_by(|a, b| a.0.total_cmp(&b.0));
    match (peaks.last(), peaks.first()) {
        (Some((_, most)), Some((_, least))) if peaks.len() > 1 => run.peak_ratio(most, least),
        _ => Err("two arms".to_owned()),
    }
}

/// How far the kernel reads ahead decides more than the server does.
pub(super) fn s16(run: &Evidence<'_>) -> Found<Finding> {
    let (path, levels) = run.levels("environment.disk.read_ahead_kb")?;
    let arms: Vec<&str> = run.regattas().map(|target| target.name.as_str()).collect();
    let mut by_kernel: Option<(Effect, String)> = None;
    for arm in &arms {
        let peaks = |level: &'_ String| run.with(path, level).peaks(arm, "good_per_s");
        for a in levels {
            for b in levels.iter().filter(|b| *b != a) {
                let effect = run.compare((arm, &peaks(a)?), (arm, &peaks(b)?))?;
                let told = format!("{arm}: {a} KiB over {b} KiB {}", show(&effect));
                if by_kernel.as_ref().is_none_or(|(most, _)| effect.ratio > most.ratio) {
                    by_kernel = Some((effect, told));
                }
            }
        }
    }
    let mut by_server: Option<Effect> = None;
    for level in levels {
        let effect = extremes(&run.with(path, level), &arms)?;
        if by_server.is_none_or(|most| effect.ratio > most.ratio) {
            by_server = Some(effect);
        }
    }
    let ((kernel, told), Some(server)) = (by_kernel.ok_or("levels")?, by_server) else {
        return Err("two arms".to_owned());
    };
    let ours = format!("{told}; between servers at most {}", show(&server));
    let why = "peaks, the largest difference that read-ahead makes and the largest between servers";
    let open = match (kernel.interval, server.interval) {
        (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
        _ => true,
    };
    if open {
        return Ok(Finding::undecided(ours, format!("the intervals overlap: more blocks; {why}")));
    }
    Ok(Finding::of(kernel.ratio > server.ratio, ours, why))
}

/// The arm with the largest area under its curve among the cells that `run` looks at.
fn winner<'a>(run: &Evidence<'a>) -> Found<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for target in run.regattas() {
        let areas: Vec<f64> = run.area(&target.name)?.into_values().collect();
        if areas.is_empty() {
            continue;
        }
        let area = crate::stats::median(&areas);
        if best.is_none_or(|(most, _)| area > most) {
            best = Some((area, target.name.as_str()));
        }
    }
    best.map(|(_, name)| name).ok_or_else(|| "valid trials".to_owned())
}

/// No server is the best both when all is cached and when half is on a disk.
pub(super) fn s17(run: &Evidence<'_>) -> Found<Finding> {
    let (path, levels) = run.levels("environment.memory")?;
    let (first, last) = (&levels[0], &levels[levels.len() - 1]);
    let (cached, disk) = (run.with(path, first), run.with(path, last));
    let (best, other) = (winner(&cached)?, winner(&disk)?);
    let ours = format!("{best} has the largest area at {first} of the files, {other} at {last}");
    if best == other {
        return Ok(Finding::of(false, ours, "one server is the best at both"));
    }
    let lead = |run: &Evidence<'_>, one: &str, two: &str| {
        run.compare((one, &run.area(one)?), (two, &run.area(two)?))
    };
    let (there, here) = (lead(&cached, best, other)?, lead(&disk, other, best)?);
    let why = format!(
        "{best} over {other} {}, and on the disk {other} over {best} {}",
        show(&there),
        show(&here)
    );
    let sure = |effect: &Effect| effect.interval.is_some_and(|interval| interval.low > 1.0);
    if sure(&there) && sure(&here) {
        return Ok(Finding::of(true, ours, why));
    }
    Ok(Finding::undecided(
        ours,
        format!("one of the leads is within the noise: more blocks; {why}"),
    ))
}

/// Without think times the ranking changes.
pub(super) fn p3(run: &Evidence<'_>) -> Found<Finding> {
    let (path, levels) = run.levels("workload.think")?;
    let (kept, none) = (&levels[0], &levels[levels.len() - 1]);
    let arms: Vec<&str> =
        run.run.experiment.targets.iter().map(|target| target.name.as_str()).collect();
    let (mut told, mut turned, mut widest) = (Vec::new(), false, 0.0_f64);
    for (at, above) in arms.iter().enumerate() {
        for below in &arms[at + 1..] {
            let gap = |level: &'_ String| run.with(path, level).peak_ratio(above, below);
            let (with, without) = (gap(kept)?, gap(none)?);
            let (Some(a), Some(b)) = (with.interval, without.interval) else { continue };
            turned |= (a.low > 1.0 && b.high < 1.0) || (a.high < 1.0 && b.low > 1.0);
            widest = widest.max(a.high / a.low).max(b.high / b.low);
            told.push(format!("{above} over {below} {} and {}", show(&with), show(&without)));
        }
    }
    let ours = format!("peaks with think times and without: {}", told.join("; "));
    if !turned && widest > 1.1 {
        return Ok(Finding::undecided(ours, "the intervals are wider than 10 %: more blocks"));
    }
    Ok(Finding::of(turned, ours, "whether any two servers change places for sure"))
}

/// Short queues for new connections leave the processor unused.
pub(super) fn g5(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.backlog");
    let mut family = families.into_iter().next().ok_or("a server with short and long queues")?;
    family.sort_by_key(|(_, backlog)| backlog.parse::<u32>().unwrap_or(0));
    let (short, long) = (family[0], family[family.len() - 1]);
    let busy = |target: &Target| {
        let cell = run.top(&target.name)?;
        let used = run.metric(&cell, "server_cpu")? / run.left();
        Ok::<_, String>((used, run.metric(&cell, "listen_overflows_per_s")?))
    };
    let ((used, overflows), (full, _)) = (busy(short.0)?, busy(long.0)?);
    let effect = run.peak_ratio(&short.0.name, &long.0.name)?;
    let ours = format!(
        "queue of {}: {:.0} % of the processor used and {overflows:.0} overflows a second; of {}: \
         {:.0} %; peaks {}",
        short.1,
        100.0 * used,
        long.1,
        100.0 * full,
        show(&effect)
    );
    let why = "at the highest rate: below half with overflows, against nine tenths or more";
    if full < 0.9 {
        return Ok(Finding::undecided(ours, "a load that fills the processor behind long queues"));
    }
    Ok(Finding::of(used < 0.5 && overflows > 0.0, ours, why))
}

/// With all cores every architecture has the same peak.
pub(super) fn g6(run: &Evidence<'_>) -> Found<Finding> {
    let one = |target: &&Target| option(target, "event.send") != "blocking";
    let arms: Vec<&str> = run.regattas().filter(one).map(|target| target.name.as_str()).collect();
    let effect = extremes(run, &arms)?;
    let ours = format!("the highest peak over the lowest: {}", show(&effect));
    if let Err(missing) = run.processors(8) {
        return Ok(Finding::undecided(ours, format!("it takes {missing}")));
    }
    Ok(Finding::equal(&effect, 0.02, ours, "peaks with every core"))
}
