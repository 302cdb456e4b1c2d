#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| par::borders::journal_lines(bytes));
