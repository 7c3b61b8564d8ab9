//! The secrets that can be told by how they begin. One row per issuer; prefixes are public and stay
//! visible.

use crate::egress::charset::{ALNUM, Charset, DOTTED, HEX, UPPER_DIGIT, WORD};

/// Prefixes, then at least `min` characters of `body`, then any number of `rest`.
pub(super) struct Row {
    pub name: &'static str,
    pub prefixes: &'static [&'static str],
    pub body: Charset,
    pub min: usize,
    pub rest: Charset,
}

const fn row(
    name: &'static str,
    prefixes: &'static [&'static str],
    body: Charset,
    min: usize,
) -> Row {
    Row { name, prefixes, body, min, rest: body }
}

const SLASHED: Charset = WORD.and(Charset::of("/"));
const SIGNED: Charset = ALNUM.and(Charset::of("%+/=_-"));

pub(super) const ROWS: &[Row] = &[
    // Clouds.
    row("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], UPPER_DIGIT, 16),
    row("aws-signature", &["X-Amz-Signature=", "X-Amz-Security-Token="], SIGNED, 16),
    row("google-api-key", &["AIza"], WORD, 30),
    row("google-oauth", &["ya29.", "GOCSPX-"], DOTTED, 20),
    row("azure-signature", &["&sig=", "?sig="], SIGNED, 20),
    row("digitalocean", &["dop_v1_", "doo_v1_", "dor_v1_"], HEX, 20),
    row("cloudflare", &["cfut_", "cfat_", "cfk_"], WORD, 20),
    row("fly", &["fm2_", "FlyV1 fm2_"], TOKEN_LIST, 20),
    row("heroku", &["HRKU-"], WORD, 20),
    row("alibaba", &["LTAI"], ALNUM, 16),
    // Forges and registries.
    row("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], ALNUM, 20),
    row("github-pat", &["github_pat_"], WORD, 22),
    row("gitlab", GITLAB, DOTTED, 16),
    row("bitbucket", &["ATBB", "ATATT3x", "ATCTT3x"], SIGNED, 20),
    row("npm", &["npm_"], ALNUM, 30),
    row("pypi", &["pypi-AgEI", "pypi-AgEN"], WORD, 20),
    row("rubygems", &["rubygems_"], HEX, 20),
    row("docker-hub", &["dckr_pat_", "dckr_oat_"], WORD, 16),
    row("buildkite", &["bkua_", "bkct_", "bkat_"], HEX, 20),
    row("circleci", &["CCIPAT_", "CCIPRJ_"], WORD, 20),
    // Models.
    row("anthropic", &["sk-ant-"], WORD, 16),
    row("openai", &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], WORD, 20),
    row("openrouter", &["sk-or-v1-"], WORD, 20),
    // The bare form is shared by many; letters in styles and documents have dashes early.
    Row { name: "model-key", prefixes: &["sk-"], body: ALNUM, min: 20, rest: WORD },
    row("huggingface", &["hf_", "api_org_"], ALNUM, 30),
    row("groq", &["gsk_"], ALNUM, 30),
    row("xai", &["xai-"], ALNUM, 30),
    row("perplexity", &["pplx-"], ALNUM, 30),
    row("replicate", &["r8_"], ALNUM, 30),
    row("nvidia", &["nvapi-"], WORD, 30),
    row("langsmith", &["lsv2_pt_", "lsv2_sk_"], WORD, 20),
    row("langfuse", &["sk-lf-", "pk-lf-"], WORD, 20),
    row("tavily", &["tvly-"], WORD, 24),
    row("firecrawl", &["fc-"], HEX, 32),
    // Services.
    row(
        "slack",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xoxd-", "xapp-"],
        SIGNED,
        10,
    ),
    row("slack-webhook", &["hooks.slack.com/services/", "hooks.slack.com/workflows/"], SLASHED, 16),
    row(
        "discord-webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        SLASHED,
        20,
    ),
    row("stripe", &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"], ALNUM, 16),
    row("shopify", &["shpat_", "shpca_", "shppa_", "shpss_"], HEX, 20),
    row("square", &["sq0atp-", "sq0csp-"], WORD, 20),
    row("sendgrid", &["SG."], DOTTED, 40),
    row("mailgun", &["key-"], HEX, 32),
    row("linear", &["lin_api_", "lin_oauth_"], ALNUM, 20),
    row("notion", &["ntn_"], ALNUM, 30),
    row("postman", &["PMAK-"], WORD, 20),
    row("figma", &["figd_", "figu_"], WORD, 20),
    row("doppler", &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."], DOTTED, 20),
    row("vault", &["hvs.", "hvb.", "hvr."], WORD, 20),
    row("terraform", &[".atlasv1."], WORD, 20),
    row("pulumi", &["pul-"], HEX, 30),
    row("databricks", &["dapi"], HEX, 32),
    row("grafana", &["glsa_", "glc_"], SIGNED, 20),
    row("sentry", &["sntrys_", "sntryu_"], SIGNED, 20),
    row("newrelic", &["NRAK-", "NRII-"], WORD, 20),
    row("supabase", &["sbp_", "sb_secret_"], WORD, 20),
    row("planetscale", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], DOTTED, 20),
    row("vercel", &["vcp_", "vci_", "vca_", "vcr_"], ALNUM, 20),
    row("netlify", &["nfp_"], ALNUM, 20),
    row("tailscale", &["tskey-"], WORD, 16),
    row("1password", &["ops_eyJ"], BASE, 20),
    row("age", &["AGE-SECRET-KEY-1"], UPPER_DIGIT, 20),
];

const TOKEN_LIST: Charset = SIGNED.and(Charset::of(","));
const BASE: Charset = SIGNED;
const GITLAB: &[&str] = &[
    "glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-",
    "glagent-", "gloas-", "glffct-",
];

/// Words that end the name of something secret. Lower case; written in any of the usual cases.
pub(super) const KEYWORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "_pwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "account_key",
    "accountkey",
    "auth_key",
    "authkey",
    "private_key",
    "private-key",
    "privatekey",
    "secret_key",
    "secret-key",
    "secretkey",
    "signing_key",
    "signingkey",
    "encryption_key",
    "encryptionkey",
    "credential",
    "credentials",
];

/// What is written where a value would be.
pub(super) const NO_VALUES: &[&str] = &[
    "undefined",
    "required",
    "optional",
    "disabled",
    "enabled",
    "default",
    "example",
    "unknown",
    "missing",
    "string",
    "number",
    "boolean",
    "redacted",
    "hidden",
    "masked",
    "[redacted]",
];
