//! The fuzz targets over their committed seeds: what was found once stays found, without a fuzzing toolchain.

use std::{fs, path::Path};

#[allow(unreachable_pub)] // The package of the fuzz targets exports them.
#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use targets::ALL;

#[test]
fn every_target_holds_over_its_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    for (name, target) in ALL {
        let mut files: Vec<_> =
            fs::read_dir(seeds.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            let data = fs::read(&file).unwrap();
            // Named in the output of a failed test.
            println!("{name}: {}", file.display());
            target(&data);
            for end in 0..data.len().min(512) {
                target(&data[..end]);
            }
        }
    }
}

#[test]
fn no_folder_of_seeds_is_left_out() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let mut folders: Vec<_> = fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, ALL.map(|(name, _)| name));
}
