// Package secrets is the set of that name: what lies in home directories and elsewhere that logs in,
// opens or tells what nobody else is to know. It is a list ([All]), and what decides whether a path
// is in it: its place in a home directory ([InHome]), or its name and what it holds ([Names]).
package secrets

import "sync"

// Set is the word that stands for the list below in options.
const Set = "secrets"

// Secret is one entry of the set.
type Secret struct {
	// Pattern is "~/PATH", a file or directory of a home directory, or "**/NAME",
	// regular files whose name matches (*, ?, []) in a tree that is searched; "**/DIRECTORY/NAME",
	// without wildcards, those of a directory called so. In searched trees case and the suffixes of
	// copies (copies, below) don't count, and "~/PATH" is looked for too: see anywhere.
	Pattern string
	// Holds is a text without which a file of that name is no secret.
	Holds  string
	Reason string
}

const (
	whyKeys     = "keys"
	WhyTokens   = "tokens"
	whyBrowser  = "cookies and passwords"
	whyHistory  = "what was typed, passwords included"
	whyWallet   = "money"
	whyMessages = "messages and mail"
	whySettings = "settings of a service, its passwords among them"
)

// How patterns begin.
const (
	InHomes = "~/"
	inTrees = "**/"
)

const holdsKey = "PRIVATE KEY-----"

// set has the patterns of secrets by their reason, and by the text that a file has to hold. It is meant to hide
// what somebody else could use, and nothing that an innocent program needs: certificates of authorities
// (cacert.pem, which holds no key) stay readable, examples of settings and the
// made-up keys of tests as well.
var set = [...]struct {
	reason, holds string
	patterns      []string
}{
	{whyKeys, "", []string{
		"~/.ssh", "~/.gnupg", "~/.pki", "~/.password-store", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.config/age", "~/.config/sops",
		"~/.config/op", "~/.config/Bitwarden CLI", "~/.step",
	}},
	{WhyTokens, "", []string{
		"~/.vault-token", "~/.aws", "~/.azure", "~/.boto", "~/.s3cfg", "~/.oci", "~/.aliyun", "~/.config/gcloud", "~/.config/doctl",
		"~/.config/hcloud", "~/.config/rclone", "~/.config/heroku", "~/.config/configstore", "~/.databrickscfg", "~/.cloudflared", "~/.ngrok2",
		"~/.kube", "~/.docker", "~/.dockercfg", "~/.config/containers", "~/.terraformrc", "~/.terraform.d", "~/.pulumi", "~/.fly", "~/.netrc",
		"~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.config/github-copilot",
		"~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.pypirc", "~/.config/pip", "~/.pip", "~/.config/pypoetry", "~/.config/uv", "~/.condarc",
		"~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.cargo/config", "~/.cargo/config.toml", "~/.gem/credentials", "~/.bundle/config",
		"~/.composer/auth.json", "~/.config/composer/auth.json", "~/.m2/settings.xml", "~/.m2/settings-security.xml", "~/.gradle/gradle.properties",
		"~/.nuget/NuGet", "~/.hex", "~/.config/go/env", "~/.huggingface", "~/.cache/huggingface/token", "~/.kaggle", "~/.openai", "~/.anthropic",
		"~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.config/anthropic", "~/.config/openai", "~/.pgpass", "~/.my.cnf",
		"~/.mylogin.cnf", "~/.config/filezilla", "~/.config/Code/User/globalStorage", "~/.config/JetBrains",
	}},
	{whyKeys, "", []string{"~/.Xauthority", "~/.ICEauthority"}},
	{WhyTokens, "", []string{"~/.krb5", "~/.smbcredentials"}},
	{whyBrowser, "", []string{"~/.mozilla"}},
	{whyMessages, "", []string{"~/.thunderbird"}},
	{whyBrowser, "", []string{
		"~/.config/google-chrome", "~/.config/chromium", "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.config/vivaldi",
		"~/.config/opera", "~/.cache/mozilla", "~/.cache/google-chrome", "~/.cache/chromium", "~/.var/app",
	}},
	{whyMessages, "", []string{
		"~/.config/Signal", "~/.config/Slack", "~/.config/discord", "~/.config/evolution", "~/.local/share/evolution", "~/Mail", "~/Maildir",
	}},
	{whyWallet, "", []string{"~/.bitcoin", "~/.ethereum", "~/.electrum"}},
	{whyHistory, "", []string{
		"~/.bash_history", "~/.zsh_history", "~/.zhistory", "~/.histfile", "~/.local/share/fish", "~/.local/share/atuin", "~/.python_history",
		"~/.node_repl_history", "~/.psql_history", "~/.mysql_history", "~/.sqlite_history", "~/.rediscli_history", "~/.irb_history", "~/.lesshst",
		"~/.viminfo", "~/.local/state/bash", "~/.local/share/recently-used.xbel",
	}},
	{WhyTokens, "", []string{"~/.authinfo", "~/.authinfo.gpg"}},
	{"tokens of servers that execute", "", []string{"~/.jupyter", "~/.local/share/jupyter/runtime"}},
	{"keys of kernels that execute", "", []string{"~/.ipython/profile_default/security"}},
	{whyHistory, "", []string{"~/.ipython/profile_default/history.sqlite"}},
	{"the password of a server that executes", "", []string{"~/.config/code-server"}},
	{WhyTokens, "", []string{"~/.local/share/code-server"}},
	{"tokens of a server that executes", "", []string{"~/.vscode-server"}},
	{WhyTokens, "", []string{
		"~/.config/Cursor", "~/.config/VSCodium", "~/.config/zed", "~/.config/containerd", "~/.config/helm", "~/.config/argocd", "~/.config/scw",
		"~/.config/linode-cli", "~/.config/exoscale", "~/.config/netlify", "~/.config/vercel", "~/.local/share/com.vercel.cli",
		"~/.config/.wrangler", "~/.wrangler", "~/.config/stripe", "~/.config/ngrok", "~/.config/firebase", "~/.config/akamai-cli", "~/.edgerc",
		"~/.bluemix", "~/.snowflake", "~/.snowsql", "~/.dbt", "~/.config/sentry", "~/.sentryclirc", "~/.twurlrc", "~/.config/ghorg", "~/.config/tea",
		"~/.config/jgit", "~/.curlrc", "~/.wgetrc", "~/.ivy2/.credentials", "~/.sbt/.credentials", "~/.julia/servers",
	}},
	{whyHistory, "", []string{"~/.julia/logs"}},
	{WhyTokens, "", []string{
		"~/.pub-cache/credentials.json", "~/.config/dart/pub-credentials.json", "~/.config/rebar3", "~/.cabal/config", "~/.stack/upload",
		"~/.wasmer", "~/.cache/huggingface/stored_tokens", "~/.local/share/containers/auth.json",
	}},
	{whyKeys, "", []string{
		"~/.local/share/gnome-keyring", "~/.gnome2/keyrings", "~/.config/kwalletrc", "~/.kde/share/apps/kwallet", "~/.config/keepassxc",
		"~/.local/share/gopass", "~/.config/gopass", "~/.config/1Password", "~/.config/Bitwarden",
	}},
	{WhyTokens, "", []string{"~/.config/bws"}},
	{whyKeys, "", []string{"~/.local/share/mkcert", "~/.putty", "~/.config/wireguard"}},
	{WhyTokens, "", []string{
		"~/.config/remmina", "~/.local/share/remmina", "~/.vnc", "~/.config/rustdesk", "~/.config/obs-studio", "~/.config/Nextcloud", "~/.dropbox",
	}},
	{whyKeys, "", []string{"~/.config/syncthing", "~/.local/state/syncthing", "~/.config/borg", "~/.config/restic"}},
	{WhyTokens, "", []string{"~/.config/transmission"}},
	{whyMessages, "", []string{
		"~/.config/aerc", "~/.config/neomutt", "~/.muttrc", "~/.mutt", "~/.mbsyncrc", "~/.msmtprc", "~/.config/msmtp", "~/.fetchmailrc",
		"~/.offlineimaprc", "~/.config/geary", "~/.local/share/geary", "~/.weechat", "~/.config/weechat", "~/.irssi", "~/.purple",
		"~/.config/Element", "~/.config/teams-for-linux", "~/.config/Microsoft", "~/.config/zoomus.conf", "~/.local/share/TelegramDesktop",
		"~/.local/share/signal-cli", "~/.config/whatsdesk", "~/mail", "~/mbox",
	}},
	{whyBrowser, "", []string{
		"~/.librewolf", "~/.waterfox", "~/.config/google-chrome-beta", "~/.config/falkon", "~/.config/qutebrowser", "~/.local/share/qutebrowser",
		"~/.local/share/epiphany",
	}},
	{whyKeys, "", []string{"~/.tor"}},
	{whyBrowser, "", []string{"~/snap"}},
	{whyWallet, "", []string{
		"~/Monero", "~/.bitmonero", "~/.litecoin", "~/.dogecoin", "~/.dashcore", "~/.zcash", "~/.config/Exodus", "~/.config/atomic",
		"~/.config/Ledger Live", "~/.config/solana", "~/.foundry/keystores", "~/.brownie/accounts", "~/.cosmos", "~/.lnd",
	}},
	{"so it is called", "", []string{"~/secrets", "~/.secrets"}},
	{WhyTokens, "", []string{"~/.config/fish/fish_variables", "~/.mongorc.js"}},
	{whyHistory, "", []string{"~/.dbshell", "~/.mongodb", "~/.config/mycli", "~/.config/pgcli", "~/.duckdb_history", "~/.julia_history", "~/.Rhistory"}},
	{WhyTokens, "", []string{"~/.Renviron"}},
	{whyHistory, "", []string{"~/.octave_hist", "~/.ghc/ghci_history", "~/.local/state/python_history", "~/.local/state/nvim", "~/.wget-hsts"}},
	{whySettings, "", []string{"**/.env", "**/.env.*", "**/*.env", "**/.envrc", "**/.flaskenv"}},
	{WhyTokens, "", []string{"**/.netrc", "**/_netrc", "**/.git-credentials"}},
	{WhyTokens, "_auth", []string{"**/.npmrc"}},
	{WhyTokens, "AuthToken", []string{"**/.yarnrc.yml"}},
	{WhyTokens, "", []string{"**/.pypirc", "**/.pgpass"}},
	{WhyTokens, "password", []string{"**/.my.cnf"}},
	{WhyTokens, "", []string{
		"**/.htpasswd", "**/.vault-token", "**/.vault_pass*", "**/.s3cfg", "**/.boto", "**/client_secret*.json", "**/service-account*.json",
		"**/service_account*.json", "**/kubeconfig", "**/kubeconfig*.yaml", "**/kubeconfig*.yml", "**/*.kubeconfig", "**/credentials.json",
		"**/.dockercfg", "**/.aws/credentials",
	}},
	{WhyTokens, "aws_secret_access_key", []string{"**/.aws/config"}},
	{WhyTokens, "", []string{"**/.azure/accesstokens.json", "**/.azure/msal_token_cache.json", "**/.kube/config"}},
	{WhyTokens, `auth"`, []string{"**/.docker/config.json"}},
	{WhyTokens, "", []string{
		"**/.cargo/credentials", "**/.cargo/credentials.toml", "**/.gem/credentials", "**/gh/hosts.yml", "**/gcloud/credentials.db",
		"**/gcloud/access_tokens.db", "**/gcloud/application_default_credentials.json", "**/.claude/.credentials.json", "**/.codex/auth.json",
		"**/.authinfo", "**/.mylogin.cnf", "**/.smbcredentials",
	}},
	// Variables of Terraform are hidden where the name, or a password, tells that there is something to hide.
	{"what Terraform made, with its passwords", "", []string{"**/*.tfstate"}},
	{whySettings, "", []string{"**/secret*.tfvars"}},
	{whySettings, "password", []string{"**/*.tfvars"}},
	{whyKeys, "", []string{"**/id_rsa", "**/id_dsa", "**/id_ecdsa", "**/id_ecdsa_sk", "**/id_ed25519", "**/id_ed25519_sk"}},
	{whyKeys, holdsKey, []string{"**/*.pem", "**/*.key"}},
	{"Rails opens its credentials with it", "", []string{"**/master.key"}},
	{whyKeys, "", []string{"**/*.p12", "**/*.pfx", "**/*.ppk", "**/*.jks", "**/*.keystore", "**/*.ovpn"}},
	{"a store of passwords", "", []string{"**/*.kdbx"}},
}

var (
	once sync.Once
	all  []Secret
)

// All is the set, an entry for each pattern.
func All() []Secret {
	once.Do(func() {
		for _, g := range set {
			for _, p := range g.patterns {
				all = append(all, Secret{p, g.holds, g.reason})
			}
		}
	})
	return all
}

// public are names that the set would have, of files that are there to be read.
var public = [...]string{
	".env.example", ".env.sample", ".env.template", ".env.tmpl", ".env.dist", ".env.default", ".env.defaults", ".env.schema",
	".env.*.example", ".env.*.sample", ".env.*.template", ".env.*.dist",
	"example.env", "sample.env", "template.env", "*.example.env", "*.sample.env", "*.template.env",
	"*truststore*.jks", "cacerts*.jks", "debug.keystore",
}

// copies are what editors and people append to the name of a copy.
var copies = [...]string{"~", ".old", ".bak", ".backup", ".orig", ".save"}

// Unsearched are directories whose files were published, or which git keeps, so
// that there is nothing of the caller's own to find by name.
var Unsearched = [...]string{".git", "node_modules", "site-packages", "dist-packages", "bower_components"}

// TestDirs are where keys are made up: those that match by name are not hidden there.
var TestDirs = [...]string{"testdata", "test", "tests", "__tests__", "fixtures", "__fixtures__", "spec", "mocks", "examples", "example"}

// Published are trees of the system's, when the caller shows them by name.
var Published = [...]string{"/usr", "/nix/store", "/gnu/store", "/sys", "/lib", "/lib64", "/bin", "/sbin"}

// HomeDepth is how many directories below a home directory that a profile shows
// are searched by name. What begins with a dot is not: the entries with "~/" are
// for that, and it holds the most files.
const HomeDepth = 3

// InEtc is what every user may read of /etc, as a rule or by mistake, and no program
// inside is to: it isn't there. What only some users may read needs no entry: it can't be
// opened.
var InEtc = [...]struct{ Name, Reason string }{
	{"apt/auth.conf", WhyTokens},
	{"apt/auth.conf.d", WhyTokens},
	{"apt/sources.list", "addresses may have a password in them"},
	{"apt/sources.list.d", "addresses may have a password in them"},
	{"boto.cfg", WhyTokens},
	{"ceph", whyKeys},
	{"containers/auth.json", WhyTokens},
	{"curlrc", WhyTokens},
	{"docker", "keys and tokens of registries"},
	{"environment", "proxies with passwords, tokens"},
	{"fstab", "passwords of file servers"},
	{"gitconfig", "tokens; git's own settings are what it was without"},
	{"gitlab", WhyTokens},
	{"gitlab-runner", WhyTokens},
	{"hostid", "which host this is"},
	{"ipsec.d", whyKeys},
	{"ipsec.secrets", whyKeys},
	{"krb5.keytab", whyKeys},
	{"kubernetes", "keys of the cluster"},
	{"ld.so.preload", "libraries of the host's that nobody inside may see; each program would say so"},
	{"letsencrypt", whyKeys},
	{"maven/settings.xml", WhyTokens},
	{"msmtprc", WhyTokens},
	{"munge", whyKeys},
	{"my.cnf.d", whySettings},
	{"NetworkManager/system-connections", "passwords of networks"},
	{"npmrc", WhyTokens},
	{"openvpn", whyKeys},
	{"pip.conf", "addresses may have a password in them"},
	{"pki/tls/private", whyKeys},
	{"postfix/sasl_passwd", WhyTokens},
	{"ppp", "passwords of networks"},
	{"rancher", "keys of the cluster"},
	{"samba/credentials", WhyTokens},
	{"ssl/private", whyKeys},
	{"ssmtp", WhyTokens},
	{"vault.d", WhyTokens},
	{"wgetrc", "proxies with passwords"},
	{"wireguard", whyKeys},
	{"wpa_supplicant", "passwords of networks"},
	{"yum.repos.d", "addresses may have a password in them"},
}
