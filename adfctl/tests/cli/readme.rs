//! The tour in the README.

use ctl_contract::tour::the_tour_of_a_readme_is_what_happens;

#[test]
fn the_tour_is_what_happens() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    the_tour_of_a_readme_is_what_happens(&crate::CASE, (readme, "## A tour"), "127.0.0.1:6230");
}
