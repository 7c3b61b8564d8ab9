//! Any bytes as a manifest, in each syntax: no panic, and what is accepted can be written down and
//! read again.
#![no_main]

use greenroom_formats::manifest::{FILE_NAMES, Format, parse, to_toml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for file in FILE_NAMES {
        if let Ok(loaded) = parse(file, bytes) {
            let text = to_toml(&loaded.manifest).expect("what was read can be written");
            // A foreign form may say what ours refuses, such as a program outside the plugin.
            let foreign = loaded.manifest.format != Format::Native;
            assert!(foreign || parse("plugin.toml", text.as_bytes()).is_ok(), "{text}");
        }
    }
});
