//! The tour in the README.

use ctl_contract::tour::readme_tour_matches_the_output;

#[test]
fn the_tour_matches_the_output() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    readme_tour_matches_the_output(&crate::CASE, (readme, "## A tour"), "127.0.0.1:6230");
}
