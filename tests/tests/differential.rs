//! Random sequences for the comparisons of in-memory servers with real ones.

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

/// Runs `usual` sequences, always the same ones, or as many new ones as `DIFFERENTIAL_CASES` says. `shown` is the
/// text of the shortest one that fails.
pub(crate) fn run_all<S: Strategy>(
    usual: u32,
    max_shrink_iters: u32,
    sequences: &S,
    run: impl Fn(&S::Value) -> Result<(), String>,
    shown: impl Fn(&S::Value) -> String,
) {
    let wanted = std::env::var("DIFFERENTIAL_CASES").ok();
    let cases = wanted.as_ref().map(|cases| cases.parse().expect("DIFFERENTIAL_CASES is a number"));
    let config = Config {
        cases: cases.unwrap_or(usual),
        failure_persistence: None,
        max_shrink_iters,
        ..Config::default()
    };
    let mut runner = match wanted {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let result = runner.run(sequences, |sequence| run(&sequence).map_err(TestCaseError::fail));
    if let Err(TestError::Fail(reason, sequence)) = result {
        panic!("{reason}\nthe shortest sequence found:\n{}", shown(&sequence));
    }
    result.unwrap();
}
