//! `rounds keygen FILE`: a pair of keys that signs and verifies statements.

use std::path::PathBuf;

use rounds_models::signature;
use serde_json::json;

use super::{Output, output};
use crate::usage::reported;

/// Arguments of `rounds keygen`.
#[derive(clap::Args)]
pub struct KeygenArguments {
    /// Output file of the secret key (mode 0600); the public one is written beside it, to FILE.pub
    file: PathBuf,
}

/// Makes a pair of Ed25519 keys.
///
/// # Errors
/// Files that are there already or cannot be written.
pub fn run(arguments: &KeygenArguments, output: Output) -> anyhow::Result<()> {
    let secret = &arguments.file;
    let public = signature::generate(secret).map_err(|error| reported(true, error))?;
    let text = output::pairs([
        ("secret key", format!("{}, for `rounds train --secure --sign`", secret.display())),
        ("public key", format!("{}, for `rounds account --statement FILE --verify`", public.display())),
    ]);
    let [secret, public] = [secret, &public].map(|path| path.display().to_string());
    output.print(&json!({"secret_key": secret, "public_key": public}), text)
}
