package redact

// secretNames are parts of names whose values are secrets. They are compared
// in lower case, with - and _ left out.
var secretNames = [...]string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey",
	"privatekey", "credential", "auth", "bearer", "cookie", "sessionid", "signature",
}

// harmlessNames contain one of those and are no secrets.
var harmlessNames = [...]string{
	"pwd", "oldpwd", // the shell's directories
	"author", "authors", "authority", "authors", "gitauthorname", "gitauthoremail", "gitauthordate",
	"xauthority", "sshauthsock", // paths
	"tokenizersparallelism",
}

// secretPrefixes begin secrets wherever they stand. least is the shortest whole
// length that is taken for one.
var secretPrefixes = [...]struct {
	prefix string
	least  int
}{
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 30}, // GitHub
	{"glpat-", 16},                                  // GitLab
	{"sk-", 20}, {"sk_live_", 16}, {"rk_live_", 16}, // OpenAI, Anthropic, Stripe
	{"AKIA", 20}, {"ASIA", 20}, // AWS
	{"xoxb-", 16}, {"xoxp-", 16}, {"xoxa-", 16}, {"xapp-", 16}, // Slack
	{"AIza", 30},    // Google
	{"npm_", 30},    // npm
	{"pypi-", 30},   // PyPI
	{"eyJ", 40},     // JSON Web Token
	{"hf_", 20},     // Hugging Face
	{"dop_v1_", 30}, // DigitalOcean
}

// schemes stand before a secret in an Authorization header.
var schemes = [...]string{"bearer ", "basic ", "token ", "digest "}
