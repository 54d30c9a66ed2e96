#![no_main]

#[path = "../src/programs.rs"]
#[allow(dead_code)]
mod programs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| programs::saltfile(data));
