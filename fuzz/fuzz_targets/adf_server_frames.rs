#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::adf_server_frames(data));
