//! The fuzz targets over their committed seeds: what was found once stays found, without a fuzzing toolchain.

use std::{
    fs,
    path::{Path, PathBuf},
};

use queue_core::Random;

#[allow(unreachable_pub)] // The package of the fuzz targets exports them.
#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use targets::ALL;

/// The seeds of a target.
fn files(name: &str) -> Vec<PathBuf> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let mut files: Vec<_> =
        fs::read_dir(seeds.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no seeds");
    files
}

#[test]
fn every_target_passes_its_seeds() {
    for (name, target) in ALL {
        for file in files(name) {
            let data = fs::read(&file).unwrap();
            // Named in the output of a failed test.
            println!("{name}: {}", file.display());
            target(&data);
            for end in (0..data.len().min(512)).step_by(data.len() / 64 + 1) {
                target(&data[..end]);
            }
        }
    }
}

/// A target that has gone stale fails here, not in the next fuzzing session.
#[test]
fn every_target_passes_mutated_seeds() {
    for (name, target) in ALL {
        let seeds: Vec<Vec<u8>> = files(name).iter().map(|file| fs::read(file).unwrap()).collect();
        let mut random = Random::new(name.bytes().map(u64::from).sum());
        for _ in 0..mutations() {
            let data = mutated(&seeds, &mut random);
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{name}: {}", data.escape_ascii());
        }
    }
}

/// Executions of each target; `FUZZ_MUTATIONS` sets another number.
fn mutations() -> usize {
    std::env::var("FUZZ_MUTATIONS")
        .map_or(100, |number| number.parse().expect("FUZZ_MUTATIONS is a number"))
}

/// Number of bytes of the longest input.
const LONGEST: usize = 2048;

/// A seed with up to eight changes: other, lost and repeated bytes, bytes that mean something, and the end of another
/// seed.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const SPECIAL: &[u8] = b"\0\n\r\t \"'\\|<>{}[]:;,.-0129\x7f\x80\xff";
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        data.truncate(LONGEST);
        let at = random.below(data.len() + 1);
        match random.below(5) {
            0 if at < data.len() => data[at] = random.next_u64().to_le_bytes()[0],
            1 if at < data.len() => drop(data.remove(at)),
            2 => data.insert(at, SPECIAL[random.below(SPECIAL.len())]),
            3 => {
                let again = data[at..].iter().copied().take(random.below(16)).collect::<Vec<_>>();
                data.splice(at..at, again);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                data.truncate(at);
                data.extend(&other[random.below(other.len() + 1)..]);
            }
        }
    }
    data.truncate(LONGEST);
    data
}
