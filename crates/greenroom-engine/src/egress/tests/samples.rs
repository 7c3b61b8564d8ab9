//! One by one: what is masked, what stays, and how it looks.

use super::*;

#[test]
fn values_of_the_session_are_masked_in_every_form() {
    let value = &["hunter2 \"x\"/&"];
    check(value, "a hunter2 \"x\"/& b", "a ************* b");
    check(value, r#"{"k":"hunter2 \"x\"/&"}"#, r#"{"k":"***************"}"#);
    check(value, "?k=hunter2%20%22x%22%2F%26&l=1", "?k=***********************&l=1");
    // base64 at each alignment; only what depends on the value goes.
    check(&["correct-horse"], "Y29ycmVjdC1ob3JzZQ==", "*****************Q==");
    check(&["correct-horse"], "eGNvcnJlY3QtaG9yc2U=", "eG****************U=");
    check(&["short"], "a short one", "a short one");
}

#[test]
fn long_values_are_masked_in_pieces() {
    let value: String = (0..300u32).map(|n| char::from(b'a' + (n * n % 26) as u8)).collect();
    let input = format!("[{value}]");
    check(&[&value], &input, &format!("[{}]", "*".repeat(300)));
    let key = "-----BEGIN X-----\nAbCdEf0123456789xyz\nQwErTy0987654321abc\n-----END X-----";
    check(&[key], "x Q AbCdEf0123456789xyz y", "x Q ******************* y");
}

#[test]
fn overlapping_beginnings_do_not_get_through() {
    check(&["s3cret"], "xs3s3s3cret", "xs3s3******");
    check(&["abcabd"], "abcabcabd", "abc******");
    check(&["aaaaaab"], "aaaaaaaaab", "aaa*******");
}

#[test]
fn colours_and_links_do_not_hide_anything() {
    check(
        &["hunter2"],
        "\x1b[1mhun\x1b[0;31mter\x1b[K2\x1b[m",
        "\x1b[1m***\x1b[0;31m***\x1b[K*\x1b[m",
    );
    check(&["hunter2"], "hun\x1b]8;;http://a\x1b\\ter2", "***\x1b]8;;http://a\x1b\\****");
    check(&["hunter2"], "h\x07un\x1b[?25lt\x1b(Be\x1b[>1ur2", "*\x07**\x1b[?25l*\x1b(B*\x1b[>1u**");
    // Not beside each other on the screen.
    check(&["hunter2"], "hun\x1b[5;5Hter2", "hun\x1b[5;5Hter2");
}

#[test]
fn what_was_typed_over_is_read_as_it_stands() {
    check(&["hunter2"], "hunx\x08ter2", "hunx\x08****");
    let typo = "sk-ant-api03-AAAABBBx\x08BBCCCCDDDD0";
    check(&[], typo, "sk-ant-*************x\x08***********");
}

#[test]
fn strings_of_a_terminal_are_texts_of_their_own() {
    check(&["hunter2"], "\x1b]0;ssh hunter2\x07$ ", "\x1b]0;ssh *******\x07$ ");
    check(&["hunter2"], "\x1b]8;;http://h/?k=hunter2\x1b\\x", "\x1b]8;;http://h/?k=*******\x1b\\x");
    check(&["hunter2"], "hun\x1b]0;ter2\x07ter2", "***\x1b]0;ter2\x07****");
    // The clipboard as a whole, with its number: a terminal then ignores it.
    check(
        &[],
        "a\x1b]52;c;aGVsbG8=\x07b",
        "a\x1b]************\x07b".replace("************", "*************").as_str(),
    );
}

#[test]
fn wide_characters_keep_their_width() {
    check(&["pass密码ü1"], "[pass密码ü1]", "[******\0**\0*\0*]");
}

#[test]
fn built_in_rules_keep_what_is_public() {
    let body = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    check(&[], &format!("t ghp_{body} t"), &format!("t ghp_{} t", "*".repeat(36)));
    check(&[], "AKIAIOSFODNN7EXAMPLE", "AKIA****************");
    check(&[], "sk-ant-api03-abcdefghijkl_mnop-qr", &format!("sk-ant-{}", "*".repeat(26)));
    check(&[], "\\nsk-proj-abcdefghij0123456789", &format!("\\nsk-proj-{}", "*".repeat(20)));
    check(&[], "xoxb-1234567890-abcdefghij", &format!("xoxb-{}", "*".repeat(21)));
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
    let shown = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}", "*".repeat(jwt.len() - 24));
    check(&[], jwt, &shown);
    check(&[], "postgres://app:s3cr3t-pw@db:5432/x", "postgres://app:*********@db:5432/x");
    check(
        &[],
        "123456789:AAbcdefghijklmnopqrstuvwxyz0123456",
        &format!("123456789:AA{}", "*".repeat(32)),
    );
}

#[test]
fn private_keys_are_masked_over_lines() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\r\nMIIEpAIBAAKCAQEA75+/\r\nab=\r\n-----END RSA PRIVATE KEY-----\r\n$ ls";
    let shown = "-----BEGIN RSA PRIVATE KEY-----\r\n********************\r\n***\r\n*----END RSA PRIVATE KEY-----\r\n$ ls";
    check(&[], key, shown);
    let escaped = r#"{"key":"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhki\n-----END PRIVATE KEY-----\n"}"#;
    let shown =
        r#"{"key":"-----BEGIN PRIVATE KEY-----***********************----END PRIVATE KEY-----\n"}"#;
    check(&[], escaped, shown.replace("***********************", &"*".repeat(24)).as_str());
    let prose = "-----BEGIN PRIVATE KEY-----\r\nis how a key begins.";
    check(&[], prose, prose);
}

#[test]
fn assignments_and_headers() {
    check(&[], "API_KEY=abcdefgh", "API_KEY=********");
    check(&[], "export DB_PASSWORD='hunter2pass'", "export DB_PASSWORD='***********'");
    check(&[], r#"{"password": "hunter2pass", "a": 1}"#, r#"{"password": "***********", "a": 1}"#);
    check(&[], r#"{\"client_secret\":\"ab12cd34ef\"}"#, r#"{\"client_secret\":\"**********\"}"#);
    check(&[], "token: 8f3a9c21d0aa", "token: ************");
    check(&[], "--api-key 8f3a9c21d0aa -v", "--api-key ************ -v");
    check(&[], "Authorization: Bearer abc123def456", "Authorization: Bearer ************");
    check(
        &[],
        "-H 'authorization: Basic dXNlcjpwYXNz0g=='",
        "-H 'authorization: Basic ****************'",
    );
    check(&[], "<password>geheim123</password>", "<password>*********</password>");
}

#[test]
fn what_only_looks_like_it_stays() {
    for text in [
        "password = get_password2(user)",
        "let token = parser.next_token(2);",
        "secret: ${SECRET_12345678}",
        "API_KEY=$(cat key1)",
        "token: Option<String>,",
        "if password == expected12 {",
        "MAX_TOKENS=4096000",
        "class=\"sk-toggleable__content-arrow0\"",
        "Bearer authentication is used",
        "http://localhost:8080/path?x=1",
        "ssh://git@github.com:22/x.git",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "550e8400-e29b-41d4-a716-446655440000",
        "TOKEN_COUNT=1000000",
        "\"token\": \"tokenizer\"",
        "risk-averse task-force disk-ab12",
    ] {
        check(&["unrelated-value"], text, text);
    }
}

#[test]
fn a_pause_lets_out_a_few_characters_and_then_masks() {
    let shield = shield(&["production-key-1"]);
    let mut redactor = Redactor::new(shield, Seq(0));
    let mut out = Vec::new();
    redactor.feed(b"now: product", &mut out);
    assert_eq!(out, b"now: ");
    redactor.paused(&mut out);
    assert_eq!(out, b"now: pro");
    redactor.paused(&mut out);
    assert_eq!(out, b"now: pro", "a second pause is no second chance");
    redactor.expire(&mut out);
    assert_eq!(out, b"now: pro****");
    redactor.feed(b"ion-key-1!", &mut out);
    redactor.finish(&mut out);
    assert_eq!(out, b"now: pro*************!");
}

#[test]
fn a_prompt_is_not_stuck() {
    let mut redactor = Redactor::new(shield(&["secret-value"]), Seq(0));
    let mut out = Vec::new();
    redactor.feed(b"continue? yes", &mut out);
    redactor.paused(&mut out);
    assert_eq!(out, b"continue? yes");
}
