package rootfs

import "github.com/confine-run/confine/internal/hostfs"

// rootLinks are links into /usr on most hosts, and directories of their own on
// the others. What isn't there is left out.
var rootLinks = [...]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// stores are where distributions without /usr keep everything.
var stores = [...]string{"/nix/store", "/gnu/store"}

// etcEntry is one thing of the host's /etc that is shown.
type etcEntry struct {
	name   string // below /etc
	copy   bool   // small: its text costs less than a mount
	reason string
}

// etc is the chosen part of /etc. What is not here is not shown: above all
// shadow and private keys, which the uid 0 of a run of root's could read, the
// id of the machine, and settings that hold tokens (gitconfig, npmrc, pip.conf,
// wgetrc, curlrc, maven's settings.xml).
var etc = [...]etcEntry{
	{"ImageMagick-6", false, "ImageMagick reads its policy before it does anything"},
	{"ImageMagick-7", false, "the same"},
	{"R", false, "R keeps its start-up files here, and links to them"},
	{"alternatives", false, "links of /usr/bin lead through it"},
	{"crypto-policies", false, "OpenSSL's settings on Fedora include it"},
	{"debian_version", true, "programs ask which system this is"},
	{"fonts", false, "fontconfig fails without"},
	{"inputrc", true, "keys of readline"},
	{"java", false, "what the JDK's conf and security directories lead to on Fedora; Debian's are below"},
	{"ld-musl-aarch64.path", true, "the search path of musl's loader"},
	{"ld-musl-x86_64.path", true, "the search path of musl's loader"},
	{"ld.so.cache", false, "where the loader finds libraries"},
	{"localtime", false, "the time zone"},
	{"lsb-release", true, "programs ask which system this is"},
	{"matplotlibrc", false, "Debian's matplotlib can't be imported without"},
	{"maven/m2.conf", true, "mvn starts from it"},
	{"maven/logging", false, "mvn logs by it"},
	{"mime.types", false, "Python's mimetypes and web servers read it"},
	{"os-release", true, "programs ask which system this is"},
	{"perl", false, "modules of the system's perl"},
	{"php", false, "PHP loads its extensions from what it says"},
	{"pki/ca-trust/extracted", false, "certificates of authorities on Fedora"},
	{"pki/tls/cert.pem", false, "certificates of authorities on Fedora"},
	{"pki/tls/certs", false, "certificates of authorities on Fedora"},
	{"pki/tls/openssl.cnf", true, "OpenSSL's settings on Fedora"},
	{"protocols", true, "getprotobyname"},
	{"redhat-release", true, "programs ask which system this is"},
	{"services", true, "getservbyname"},
	{"ssl/cert.pem", false, "certificates of authorities on Alpine"},
	{"ssl/certs", false, "certificates of authorities; ssl/private is beside it, so not all of ssl"},
	{"ssl/openssl.cnf", true, "OpenSSL's settings"},
}

// varData is what of /var installed programs need to start. The rest is what services
// keep, and spools, logs and mail.
var varData = [...]struct{ path, reason string }{
	{"/var/cache/dictionaries-common", "ispell and Emacs on Debian look here for what dictionaries there are"},
	{"/var/cache/fontconfig", "else each program that draws text reads every font first"},
	{"/var/cache/man", "apropos and whatis"},
	{"/var/lib/aspell", "Debian's aspell compiles its dictionaries here"},
	{"/var/lib/dictionaries-common", "ispell and Emacs on Debian look here for what dictionaries there are"},
	{"/var/lib/ghc", "which packages GHC has, on Debian"},
	{"/var/lib/ghostscript", "fonts and their map, on Debian"},
	{"/var/lib/mecab", "dictionaries of Japanese"},
	{"/var/lib/sgml-base", "catalogs of SGML"},
	{"/var/lib/texmf", "TeX's formats, without which it doesn't start"},
	{"/var/lib/xml-core", "catalogs of XML"},
}

// jvms holds Debian's JDKs as java-17-openjdk-amd64. Their settings are links
// to /etc/java-17-openjdk, without which java doesn't start.
const jvms = "/usr/lib/jvm"

// maxCopy is the size up to which copying a file costs less than mounting it.
const maxCopy = 16 << 10

// devices are the nodes of the minimal /dev.
var devices = [...]string{"/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}

// deviceLinks are the links of /dev.
var deviceLinks = [...]hostfs.Link{
	{At: "/dev/fd", Target: "/proc/self/fd"},
	{At: "/dev/ptmx", Target: "pts/ptmx"},
	{At: "/dev/stderr", Target: "/proc/self/fd/2"},
	{At: "/dev/stdin", Target: "/proc/self/fd/0"},
	{At: "/dev/stdout", Target: "/proc/self/fd/1"},
}

// procPart is one part of a fresh /proc that isn't left as it is. What the
// kernel at hand doesn't have needs nothing.
type procPart struct {
	path   string
	hide   bool // or only read-only
	always bool // or only for root
	reason string
}

// procParts: an ordinary user owns nothing of /proc but its own processes, and
// has no capability, so the kernel refuses the rest. Files of root's are
// another matter: uid 0 of the caller is their owner inside too, without any
// capability, and uid 0 of the user namespace owns the settings of the
// namespaces that belong to it.
var procParts = [...]procPart{
	{"/proc/acpi", true, false, "switches of the hardware"},
	{"/proc/asound", true, false, "switches of the hardware"},
	{"/proc/bus", false, false, "configuration space of devices"},
	{"/proc/driver", false, false, "settings of drivers"},
	{"/proc/dynamic_debug", false, false, "settings of the kernel"},
	{"/proc/fs", false, false, "settings of file systems"},
	{"/proc/irq", false, false, "which CPU serves which device"},
	{"/proc/kcore", true, false, "memory of the kernel"},
	{"/proc/key-users", true, true, "keyrings of the caller"},
	{"/proc/keys", true, true, "keyrings of the caller: shown by uid, not by namespace"},
	{"/proc/kmsg", true, false, "log of the kernel"},
	{"/proc/kpagecgroup", true, false, "physical memory of everybody"},
	{"/proc/kpagecount", true, false, "physical memory of everybody"},
	{"/proc/kpageflags", true, false, "physical memory of everybody"},
	{"/proc/latency_stats", true, false, "what everybody waits for"},
	{"/proc/mtrr", false, false, "settings of the memory"},
	{"/proc/pagetypeinfo", true, false, "memory of everybody"},
	{"/proc/sched_debug", true, false, "what everybody runs"},
	{"/proc/scsi", true, false, "switches of the hardware"},
	{"/proc/slabinfo", true, false, "memory of the kernel: what everybody has open"},
	{"/proc/sys", false, false, "settings of the kernel: core_pattern is a program that it runs as root"},
	{"/proc/sysrq-trigger", false, false, "reboots the host"},
	{"/proc/timer_list", true, false, "what everybody runs"},
	{"/proc/timer_stats", true, false, "what everybody runs"},
	{"/proc/vmallocinfo", true, false, "memory of the kernel"},
	{"/proc/vmcore", true, false, "memory of the kernel"},
}
