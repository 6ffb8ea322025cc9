package rootfs

// SetSecrets is the word that stands for the list below in Input.Deny.
const SetSecrets = "secrets"

// Secret is one entry of the set.
type Secret struct {
	// Pattern is "~/PATH", a file or directory of a home directory, or "**/NAME",
	// regular files whose name matches (*, ?, []) in a tree that is searched.
	Pattern string
	// Holds is a text without which a file of that name is no secret.
	Holds  string
	Reason string
}

const (
	whyKeys     = "keys"
	whyTokens   = "tokens"
	whyBrowser  = "cookies and passwords"
	whyHistory  = "what was typed, passwords included"
	whyWallet   = "money"
	whyMessages = "messages and mail"
	whySettings = "settings of a service, its passwords among them"
)

// How patterns begin.
const (
	inHomes = "~/"
	inTrees = "**/"
)

const holdsKey = "PRIVATE KEY-----"

// Secrets gives the set. What is in it is meant to hide what somebody else could
// use, and nothing that an innocent program needs: certificates of authorities
// (cacert.pem, which holds no key) stay readable, examples of settings and the
// made-up keys of tests as well.
func Secrets() []Secret { return secrets[:] }

var secrets = [...]Secret{
	{"~/.ssh", "", whyKeys},
	{"~/.gnupg", "", whyKeys},
	{"~/.pki", "", whyKeys},
	{"~/.password-store", "", whyKeys},
	{"~/.local/share/keyrings", "", whyKeys},
	{"~/.local/share/kwalletd", "", whyKeys},
	{"~/.config/age", "", whyKeys},
	{"~/.config/sops", "", whyKeys},
	{"~/.config/op", "", whyKeys},
	{"~/.config/Bitwarden CLI", "", whyKeys},
	{"~/.step", "", whyKeys},
	{"~/.vault-token", "", whyTokens},
	{"~/.aws", "", whyTokens},
	{"~/.azure", "", whyTokens},
	{"~/.boto", "", whyTokens},
	{"~/.s3cfg", "", whyTokens},
	{"~/.oci", "", whyTokens},
	{"~/.aliyun", "", whyTokens},
	{"~/.config/gcloud", "", whyTokens},
	{"~/.config/doctl", "", whyTokens},
	{"~/.config/hcloud", "", whyTokens},
	{"~/.config/rclone", "", whyTokens},
	{"~/.config/heroku", "", whyTokens},
	{"~/.config/configstore", "", whyTokens},
	{"~/.databrickscfg", "", whyTokens},
	{"~/.cloudflared", "", whyTokens},
	{"~/.ngrok2", "", whyTokens},
	{"~/.kube", "", whyTokens},
	{"~/.docker", "", whyTokens},
	{"~/.config/containers", "", whyTokens},
	{"~/.terraformrc", "", whyTokens},
	{"~/.terraform.d", "", whyTokens},
	{"~/.pulumi", "", whyTokens},
	{"~/.fly", "", whyTokens},
	{"~/.netrc", "", whyTokens},
	{"~/.git-credentials", "", whyTokens},
	{"~/.config/git/credentials", "", whyTokens},
	{"~/.config/gh", "", whyTokens},
	{"~/.config/glab-cli", "", whyTokens},
	{"~/.config/hub", "", whyTokens},
	{"~/.config/github-copilot", "", whyTokens},
	{"~/.npmrc", "", whyTokens},
	{"~/.yarnrc", "", whyTokens},
	{"~/.yarnrc.yml", "", whyTokens},
	{"~/.pypirc", "", whyTokens},
	{"~/.config/pip", "", whyTokens},
	{"~/.pip", "", whyTokens},
	{"~/.config/pypoetry", "", whyTokens},
	{"~/.config/uv", "", whyTokens},
	{"~/.condarc", "", whyTokens},
	{"~/.cargo/credentials", "", whyTokens},
	{"~/.cargo/credentials.toml", "", whyTokens},
	{"~/.cargo/config", "", whyTokens},
	{"~/.cargo/config.toml", "", whyTokens},
	{"~/.gem/credentials", "", whyTokens},
	{"~/.bundle/config", "", whyTokens},
	{"~/.composer/auth.json", "", whyTokens},
	{"~/.config/composer/auth.json", "", whyTokens},
	{"~/.m2/settings.xml", "", whyTokens},
	{"~/.m2/settings-security.xml", "", whyTokens},
	{"~/.gradle/gradle.properties", "", whyTokens},
	{"~/.nuget/NuGet", "", whyTokens},
	{"~/.hex", "", whyTokens},
	{"~/.config/go/env", "", whyTokens},
	{"~/.huggingface", "", whyTokens},
	{"~/.cache/huggingface/token", "", whyTokens},
	{"~/.kaggle", "", whyTokens},
	{"~/.openai", "", whyTokens},
	{"~/.anthropic", "", whyTokens},
	{"~/.claude", "", whyTokens},
	{"~/.claude.json", "", whyTokens},
	{"~/.codex", "", whyTokens},
	{"~/.gemini", "", whyTokens},
	{"~/.config/anthropic", "", whyTokens},
	{"~/.config/openai", "", whyTokens},
	{"~/.pgpass", "", whyTokens},
	{"~/.my.cnf", "", whyTokens},
	{"~/.mylogin.cnf", "", whyTokens},
	{"~/.config/filezilla", "", whyTokens},
	{"~/.config/Code/User/globalStorage", "", whyTokens},
	{"~/.config/JetBrains", "", whyTokens},
	{"~/.Xauthority", "", whyKeys},
	{"~/.ICEauthority", "", whyKeys},
	{"~/.krb5", "", whyTokens},
	{"~/.smbcredentials", "", whyTokens},
	{"~/.mozilla", "", whyBrowser},
	{"~/.thunderbird", "", whyMessages},
	{"~/.config/google-chrome", "", whyBrowser},
	{"~/.config/chromium", "", whyBrowser},
	{"~/.config/BraveSoftware", "", whyBrowser},
	{"~/.config/microsoft-edge", "", whyBrowser},
	{"~/.config/vivaldi", "", whyBrowser},
	{"~/.config/opera", "", whyBrowser},
	{"~/.cache/mozilla", "", whyBrowser},
	{"~/.cache/google-chrome", "", whyBrowser},
	{"~/.cache/chromium", "", whyBrowser},
	{"~/snap/firefox", "", whyBrowser},
	{"~/snap/chromium", "", whyBrowser},
	{"~/.var/app", "", whyBrowser},
	{"~/.config/Signal", "", whyMessages},
	{"~/.config/Slack", "", whyMessages},
	{"~/.config/discord", "", whyMessages},
	{"~/.config/evolution", "", whyMessages},
	{"~/.local/share/evolution", "", whyMessages},
	{"~/Mail", "", whyMessages},
	{"~/Maildir", "", whyMessages},
	{"~/.bitcoin", "", whyWallet},
	{"~/.ethereum", "", whyWallet},
	{"~/.electrum", "", whyWallet},
	{"~/.bash_history", "", whyHistory},
	{"~/.zsh_history", "", whyHistory},
	{"~/.zhistory", "", whyHistory},
	{"~/.histfile", "", whyHistory},
	{"~/.local/share/fish", "", whyHistory},
	{"~/.local/share/atuin", "", whyHistory},
	{"~/.python_history", "", whyHistory},
	{"~/.node_repl_history", "", whyHistory},
	{"~/.psql_history", "", whyHistory},
	{"~/.mysql_history", "", whyHistory},
	{"~/.sqlite_history", "", whyHistory},
	{"~/.rediscli_history", "", whyHistory},
	{"~/.irb_history", "", whyHistory},
	{"~/.lesshst", "", whyHistory},
	{"~/.viminfo", "", whyHistory},
	{"~/.local/state/bash", "", whyHistory},
	{"~/.local/share/recently-used.xbel", "", whyHistory},

	{"**/.env", "", whySettings},
	{"**/.env.*", "", whySettings},
	{"**/.envrc", "", whySettings},
	{"**/.flaskenv", "", whySettings},
	{"**/.netrc", "", whyTokens},
	{"**/_netrc", "", whyTokens},
	{"**/.git-credentials", "", whyTokens},
	{"**/.npmrc", "_auth", whyTokens},
	{"**/.yarnrc.yml", "AuthToken", whyTokens},
	{"**/.pypirc", "", whyTokens},
	{"**/.pgpass", "", whyTokens},
	{"**/.my.cnf", "password", whyTokens},
	{"**/.htpasswd", "", whyTokens},
	{"**/.vault-token", "", whyTokens},
	{"**/.vault_pass*", "", whyTokens},
	{"**/.s3cfg", "", whyTokens},
	{"**/.boto", "", whyTokens},
	{"**/client_secret*.json", "", whyTokens},
	{"**/service-account*.json", "", whyTokens},
	{"**/service_account*.json", "", whyTokens},
	{"**/kubeconfig", "", whyTokens},
	{"**/id_rsa", "", whyKeys},
	{"**/id_dsa", "", whyKeys},
	{"**/id_ecdsa", "", whyKeys},
	{"**/id_ecdsa_sk", "", whyKeys},
	{"**/id_ed25519", "", whyKeys},
	{"**/id_ed25519_sk", "", whyKeys},
	{"**/*.pem", holdsKey, whyKeys},
	{"**/*.key", holdsKey, whyKeys},
	{"**/master.key", "", "Rails opens its credentials with it"},
	{"**/*.p12", "", whyKeys},
	{"**/*.pfx", "", whyKeys},
	{"**/*.ppk", "", whyKeys},
	{"**/*.kdbx", "", "a store of passwords"},
}

// public are names that the set would have, of files that are there to be read.
var public = [...]string{
	".env.example", ".env.sample", ".env.template", ".env.tmpl", ".env.dist", ".env.default", ".env.defaults", ".env.schema",
	".env.*.example", ".env.*.sample", ".env.*.template", ".env.*.dist",
}

// unsearched are directories whose files were published, or which git keeps, so
// that there is nothing of the caller's own to find by name.
var unsearched = [...]string{".git", "node_modules", "site-packages", "dist-packages", "bower_components"}

// testDirs are where keys are made up: those that match by name are not hidden there.
var testDirs = [...]string{"testdata", "test", "tests", "__tests__", "fixtures", "__fixtures__", "spec", "mocks", "examples", "example"}

// published are trees of the system's, when the caller shows them by name.
var published = [...]string{"/usr", "/nix/store", "/gnu/store", "/sys", "/lib", "/lib64", "/bin", "/sbin"}

// homeDepth is how many directories below a home directory that a profile shows
// are searched by name. What begins with a dot is not: the entries with "~/" are
// for that, and it holds the most files.
const homeDepth = 3
