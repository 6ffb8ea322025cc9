package redact

// secretNames are parts of names whose values are secrets. They are compared
// in lower case, with -, _ and . left out.
var secretNames = [...]string{
	"password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "accesskey",
	"privatekey", "signingkey", "encryptionkey", "credential", "auth", "bearer", "cookie", "sessionid", "signature",
}

// harmlessNames contain one of those and are no secrets.
var harmlessNames = [...]string{
	"pwd", "oldpwd", // the shell's directories
	"sshauthsock", "xauthority", // paths
	"maxtokens", "maxnewtokens", "maxtokenstosample", "numtokens", // numbers
}

// harmlessParts make any name harmless that contains them.
var harmlessParts = [...]string{"tokeniz", "author", "noauth"}

// exceptParts are names that contain a harmless part and are secrets all the same.
var exceptParts = [...]string{"authoriz"}

// harmlessEnds: what such a name holds is where the secret is, or something about it.
var harmlessEnds = [...]string{
	"file", "path", "dir", "store", "storedir", "url", "uri", "sock", "socket", "helper", "command", "cmd", "fd",
	"type", "length", "ttl", "expiry", "timeout", "prompt", "method", "mode",
}

// shortOptions are options of one letter whose value is a secret, by the program
// that takes them. They count for the words after the program's name, wherever that stands.
var shortOptions = [...]struct {
	program string
	option  string
	apart   bool // the value may be the next word
	user    bool // the value is user:secret; only what follows the colon is masked
}{
	{"mysql", "-p", false, false}, {"mysqldump", "-p", false, false}, {"mysqladmin", "-p", false, false},
	{"mariadb", "-p", false, false}, {"mariadb-dump", "-p", false, false},
	{"sshpass", "-p", true, false},
	{"curl", "-u", true, true}, {"curl", "-U", true, true}, {"curl", "--user", true, true}, {"curl", "--proxy-user", true, true},
	{"redis-cli", "-a", true, false},
	{"ldapsearch", "-w", true, false}, {"ldapmodify", "-w", true, false}, {"ldapadd", "-w", true, false},
	{"7z", "-p", false, false}, {"7za", "-p", false, false},
	{"zip", "-P", true, false}, {"unzip", "-P", true, false},
	{"docker", "-p", true, false}, {"podman", "-p", true, false}, // login -p; of run -p only a port is lost
}

// secretPrefixes begin secrets wherever they stand. least is the shortest whole
// length that is taken for one.
var secretPrefixes = [...]struct {
	prefix string
	least  int
}{
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 30}, // GitHub
	{"glpat-", 16}, {"gldt-", 16}, {"glrt-", 16}, // GitLab
	{"sk-", 20},                                        // OpenAI, Anthropic
	{"sk_live_", 16}, {"rk_live_", 16}, {"whsec_", 20}, // Stripe
	{"AKIA", 20}, {"ASIA", 20}, // AWS
	{"xoxb-", 16}, {"xoxp-", 16}, {"xoxa-", 16}, {"xoxr-", 16}, {"xoxs-", 16}, {"xapp-", 16}, // Slack
	{"AIza", 30}, {"ya29.", 20}, // Google
	{"npm_", 30},      // npm
	{"pypi-", 30},     // PyPI
	{"dckr_pat_", 20}, // Docker
	{"eyJ", 40},       // JSON Web Token
	{"hf_", 20},       // Hugging Face
	{"dop_v1_", 30},   // DigitalOcean
	{"shpat_", 30},    // Shopify
	{"SG.", 40},       // SendGrid
	{"glsa_", 20},     // Grafana
	{"AGE-SECRET-KEY-", 40},
}

// schemes stand before a secret in an Authorization header.
var schemes = [...]string{"bearer ", "basic ", "token ", "digest ", "apikey "}
