//! Hosts a plugin was granted: through the proxy, and no other way.

use std::time::Duration;

use greenroom_formats::manifest::{Allow, Allowed};
use greenroom_plugins::runtime::oneshot::Runner;
use greenroom_sandbox::policy::Level;
use serde_json::json;

use super::scene::{Scene, User};

const DEADLINE: Duration = Duration::from_secs(10);

/// Asks the proxy for a host, and tries without it.
const TRIES: &str = r#"#!/bin/bash
ask() {
  exec 3<>/dev/tcp/127.0.0.1/3128 || { echo none; return; }
  printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$1" >&3
  read -r -t 5 _ code _ <&3; echo "$code"
}
denied=$(ask evil.example.org:443); port=$(ask rules.example.com:22)
(exec 4<>/dev/tcp/192.0.2.1/443) 2>/dev/null && direct=yes || direct=no
printf '{"denied":"%s","port":"%s","direct":"%s","proxy":"%s"}\n' "$denied" "$port" "$direct" "$HTTPS_PROXY"
"#;

#[tokio::test]
async fn only_granted_hosts_and_only_through_the_proxy() {
    let Some(scene) = Scene::new(User::Ordinary, Level::Full) else { return };
    let runner = Runner::default();
    let grants =
        Allowed::from([("net.connect".into(), Allow::List(vec!["rules.example.com:443".into()]))]);
    let launch = scene.launch(TRIES, &grants);
    let reply = runner.call(&scene.workers, &launch, &json!({}), DEADLINE).await.unwrap();
    let answer = &reply.answer;
    assert_eq!((&answer["denied"], &answer["port"]), (&json!("403"), &json!("403")), "{answer:?}");
    assert_eq!(answer["direct"], "no");
    assert_eq!(answer["proxy"], "http://127.0.0.1:3128");
    let log = scene.proxy_log();
    assert!(log.contains("evil.example.org:443"), "{log}");
    scene.gone("reach").await;
    // Without the grant there is nobody to ask.
    let launch = scene.launch(TRIES, &Allowed::new());
    let reply = runner.call(&scene.workers, &launch, &json!({}), DEADLINE).await.unwrap();
    assert_eq!((&reply.answer["denied"], &reply.answer["direct"]), (&json!("none"), &json!("no")));
}
