//! `rounds features MAP DATA --out FOLDER`: features of a data set as arrays that `rounds train` and NumPy read.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use rounds_models::data::{self, SchemaError, schema};
use rounds_models::features::FeatureMap;
use rounds_models::files::NewFiles;
use serde_json::json;

use super::declaration::DeclarationArguments;
use super::run::stop_on_interrupt;
use super::{Output, UsageError, output};
use crate::usage;

/// Arguments of `rounds features`.
#[derive(clap::Args)]
pub struct FeaturesArguments {
    /// Features: scattering of images, or fourier, as NAME:KEY=VALUE,… (docs/FORMAT.md)
    #[arg(value_name = "MAP")]
    map: FeatureMap,
    /// Data set, one of `rounds list datasets`, or the path of a file or folder
    #[arg(value_name = "NAME|PATH")]
    data: String,
    /// Folder of the named data sets
    #[arg(long, env = "ROUNDS_DATA", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Output folder: x_train.npy and y_train.npy, x_test.npy and y_test.npy of test rows, and schema.toml of data that a checked schema declares
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    declared: DeclarationArguments,
}

/// Writes the features of each row. They are as private as the rows.
///
/// # Errors
/// Rows that have no such features, files that cannot be read or written.
pub fn run(arguments: &FeaturesArguments, output: Output) -> anyhow::Result<()> {
    let FeaturesArguments { map, data, data_dir, out, declared } = arguments;
    let flags = declared.declaration();
    let mut domain = data::declare(data, data_dir.as_deref(), &flags).map_err(UsageError::of)?;
    let of_draft = |error| match error {
        SchemaError::Data(error) => anyhow::Error::new(error.for_reader()),
        error => UsageError::of(error),
    };
    if domain.is_none()
        && let Some((drafted, warnings)) = data::drafted(data, &flags).map_err(of_draft)?
    {
        warnings.iter().for_each(|warning| output::warn(usage::flags(warning)));
        domain = Some(drafted);
    }
    let rows = data::load_declared(data, data_dir.as_deref(), domain.as_ref())?;
    if rows.train.units().is_some() {
        return Err(UsageError::of(
            "its rows belong to units, which the files would lack; map them in `rounds train --features`",
        ));
    }
    if map.moments().is_some() {
        let problem = "what it follows from is released by a run, which pays for it: `rounds train --features`";
        return Err(UsageError::of(format!("features {map}: {problem}")));
    }
    let mapper = map.on(rows.train.columns()).map_err(UsageError::of)?;
    fs::create_dir_all(out).with_context(|| format!("{}: cannot be made", out.display()))?;
    let parts = [("train", Some(&rows.train)), ("test", rows.test.as_ref())];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    let total: usize = parts.clone().map(|(_, part)| part.len()).sum();
    let progress = output.progress(total as u64, "features {bar:20.green} {pos}/{len} rows, {left}");
    let failed = |path: &Path| format!("{}: cannot be written", path.display());
    let stopped = stop_on_interrupt("stopping")?;
    let mut files = NewFiles::default();
    let mut create = |name: String| {
        let path = out.join(name);
        files.create(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                UsageError::of(format!("{}: it is there already; move it away first", path.display()))
            }
            _ => anyhow::Error::new(error).context(failed(&path)),
        })
    };
    // What cannot be written is known before the work.
    let arrays =
        parts.map(|(name, part)| Ok((part, create(format!("x_{name}.npy"))?, create(format!("y_{name}.npy"))?)));
    let arrays: Vec<_> = arrays.collect::<anyhow::Result<_>>()?;
    match &domain {
        // What was read from the rows is in all their features, and no schema of these would show it.
        Some(domain) if domain.is_draft() => output::warn(
            "these features follow from bounds that were read from the rows, so that no release may be made of them, and no \
             schema.toml is written; a checked schema of the table gives one",
        ),
        Some(domain) => {
            let text = schema::write(&mapper.domain_of_files(domain), &Default::default());
            create("schema.toml".to_owned())?.write_all(text.as_bytes()).with_context(|| failed(out))?;
        }
        None => {}
    }
    let goes_on = || if stopped.load(Ordering::Relaxed) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) };
    let mut told = |rows| {
        progress.inc(rows as u64);
        goes_on()
    };
    let of_write = |error: io::Error| match error.kind() {
        io::ErrorKind::Interrupted => anyhow::anyhow!("stopped; nothing of it is kept"),
        _ => anyhow::Error::new(error).context(failed(out)),
    };
    for (part, features, labels) in arrays {
        mapper.write(part, [features, labels], &mut told).map_err(of_write)?;
    }
    goes_on().map_err(of_write)?;
    files.keep().with_context(|| failed(out))?;
    progress.finish_and_clear();
    // Shown to three digits, rounded up.
    let (features, norm) = (mapper.features(), (mapper.norm_bound() * 1e3).ceil() / 1e3);
    let text = format!(
        "wrote {total} rows of {features} features to {}; their norm is at most {norm}: `rounds train --clip-features l2={norm}` \
         makes use of that",
        out.display()
    );
    let map = mapper.map().to_string();
    let folder = out.display().to_string();
    output.print(&json!({"folder": folder, "map": map, "rows": total, "features": features, "norm_bound": norm}), text)
}
