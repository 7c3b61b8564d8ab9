//! What is no secret and must be readable: source, logs, hashes, identifiers, base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Numbers that look like chance and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Our own source is a corpus at hand: every file of this crate.
fn source() -> Vec<String> {
    let mut lines = Vec::new();
    let mut dirs = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(dir) = dirs.pop() {
        // What is about secrets is full of things that look like them.
        if dir.ends_with("egress") {
            continue;
        }
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
            }
        }
    }
    lines
}

fn generated() -> Vec<String> {
    let mut numbers = Numbers(7);
    let mut lines = Vec::new();
    for n in 0..4000 {
        let (id, small) = (numbers.next(), numbers.next() % 1000);
        let h = hex(&numbers.bytes(20));
        lines.push(format!("commit {h}"));
        lines.push(format!("sha256:{}  target/release/thing-{n}.tar.gz", hex(&numbers.bytes(32))));
        lines.push(format!("index {}..{} 100644", &h[..7], &h[8..15]));
        lines.push(format!(
            "{}-{}-4{}-a{}-{}",
            &h[..8],
            &h[8..12],
            &h[12..15],
            &h[15..18],
            &h[18..30]
        ));
        lines.push(STANDARD.encode(numbers.bytes(57)));
        lines.push(format!("2026-03-01T12:{:02}:{:02}.{small:03}Z INFO request_id={id} status=200 path=/api/v1/items/{small} took={small}ms", n % 60, small % 60));
        lines.push(format!("Mar  1 12:00:{:02} host sshd[{small}]: Accepted publickey for user from 10.0.0.{} port {small}22 ssh2: ED25519 SHA256:{}", n % 60, n % 256, STANDARD.encode(numbers.bytes(32)).trim_end_matches('=')));
        lines.push(format!("   Compiling serde_json v1.0.{small} (registry+https://github.com/rust-lang/crates.io-index)"));
        lines.push(format!("integrity sha512-{}", STANDARD.encode(numbers.bytes(64))));
        lines.push(format!(
            "input_tokens: {id}, output_tokens: {small}, total_tokens={}",
            id + small
        ));
        lines.push(format!("::ffff:10.1.{}.{} - - \"GET /static/app.{}.js HTTP/1.1\" 200 {small} \"https://example.com:8443/a?b=c\"", n % 256, small % 256, &h[..8]));
        lines.push(format!("let token = lexer.next_token(); // {small}"));
        lines.push(format!("password: String, // at most {small} characters"));
        lines.push(format!(
            "  \"token\": \"identifier\", \"secret\": false, \"key-{n}\": \"{}\"",
            &h[..12]
        ));
        lines.push(format!("docker.io/library/redis@sha256:{}", hex(&numbers.bytes(32))));
        lines.push(format!("error[E0{small:03}]: cannot find value `secret_{n}` in this scope --> src/main.rs:{n}:{small}"));
    }
    lines
}

fn masked_lines(lines: &[String]) -> Vec<String> {
    let shield = shield(&[]);
    lines
        .iter()
        .filter(|line| Redactor::whole(shield.clone(), line.as_bytes()) != line.as_bytes())
        .cloned()
        .collect()
}

#[test]
fn fewer_than_one_line_in_a_thousand_is_masked() {
    for (name, lines) in [("source", source()), ("logs, hashes, identifiers, base64", generated())]
    {
        let masked = masked_lines(&lines);
        assert!(
            masked.len() * 1000 < lines.len(),
            "{} of {} lines of {name}: {:#?}",
            masked.len(),
            lines.len(),
            &masked[..masked.len().min(10)]
        );
    }
}
