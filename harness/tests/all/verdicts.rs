//! `rounds verdicts --check`: the pages of the project say what its raw runs say, and a page that does not is refused with the line.

use std::fs;
use std::path::Path;

use crate::support::{command, stderr};

#[test]
fn the_pages_say_what_the_raw_runs_say_and_a_changed_verdict_or_number_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pages = ["README.md", "results/README.md"];
    let texts = pages.map(|page| fs::read_to_string(root.join(page)).unwrap());
    let written = pages.map(|page| folder.path().join(page.replace('/', "-")));
    let checked = |texts: &[String; 2]| {
        written.iter().zip(texts).for_each(|(path, text)| fs::write(path, text).unwrap());
        let output = command("verdicts --check").args(&written).current_dir(root).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    assert_eq!(checked(&texts), (Some(0), String::new()));

    let row = texts[1].lines().find(|line| line.starts_with('|') && line.contains("**holds**")).unwrap();
    let (open, place) = ("<!-- rounds:number mnist-default -->", "<!-- / -->");
    let (before, number) = texts[0].split_once(open).unwrap();
    let (number, _) = number.split_once(place).unwrap();
    assert!(before.len() > 100 && number.contains(" ± "), "{number}");
    let changed = [
        texts[0].replacen(number, "99.99 ± 0.01", 1),
        texts[1].replacen(row, &row.replace("**holds**", "**fails**"), 1),
    ];
    let (code, message) = checked(&changed);
    assert_eq!(code, Some(1));
    // Each page's line, beside what it should say.
    for said in [number, "99.99 ± 0.01", row, &row.replace("**holds**", "**fails**")] {
        assert!(message.contains(said), "no {said} in {message}");
    }
}
