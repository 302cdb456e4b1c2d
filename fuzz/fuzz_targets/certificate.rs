#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| par::borders::certificate(bytes));
