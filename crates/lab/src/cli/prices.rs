//! `regatta lab prices`: prices of operations today, and their validation by a run.

use crate::journal::Run;
use crate::prices::{PriceCheck, PriceList, measure};
use crate::terminal::{DONE, FAILED, Form, USAGE, Working, code, print_as};
use clap::Args;
use regatta_load::engine::parse_time;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options of `regatta lab prices`.
#[derive(Args, Clone, Debug)]
pub struct PricesOptions {
    /// Compare counts times prices with the processor time that this run measured.
    #[arg(long, value_name = "RUN")]
    pub check: Option<PathBuf>,
    /// Read the prices from this file instead of measuring them.
    #[arg(long, value_name = "FILE", requires = "check")]
    pub prices: Option<PathBuf>,
    /// The most time that the micro-loops take.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
    pub limit: Duration,
    /// The seed that draws six of the run's architectures; six more are always checked.
    #[arg(long, default_value = "1", requires = "check")]
    pub seed: u64,
    /// Format of the output.
    #[arg(skip = Form::Text)]
    pub form: Form,
}

/// Measures prices and prints them, or checks a run by them; fails if the run is off its bounds.
pub fn prices(options: &PricesOptions, stop: &AtomicBool) -> u8 {
    code(try_prices(options, stop))
}

fn try_prices(options: &PricesOptions, stop: &AtomicBool) -> Result<u8, (u8, String)> {
    let PricesOptions { check, prices, limit, seed, form } = options;
    let run = check.as_ref().map(|directory| Run::open(directory)).transpose();
    let run = run.map_err(|why| (USAGE, why))?;
    let list = match prices {
        Some(path) => {
            let wrong = |why: String| (USAGE, format!("{}: {why}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            PriceList::parse(&text).map_err(wrong)?
        }
        None => {
            let _working = Working::on("measuring prices");
            let failed = |error| (FAILED, format!("micro-loops over loopback: {error}"));
            measure(*limit, stop).map_err(failed)?
        }
    };
    let Some(run) = run else {
        return Ok(print_as(*form, &list, || list.to_toml()));
    };
    let check = PriceCheck::of(&run, &list, *seed);
    let printed = print_as(*form, &check, || check.markdown());
    Ok(if printed == DONE && !check.passes() { FAILED } else { printed })
}
