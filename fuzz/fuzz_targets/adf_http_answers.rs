#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::adf_http_answers(data));
