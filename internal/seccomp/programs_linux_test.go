//go:build amd64 || arm64

package seccomp

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

const threads = `
#include <pthread.h>
#include <stdio.h>
static void *f(void *p) { return p; }
int main(void) { pthread_t t; if (pthread_create(&t, 0, f, 0)) return 1; pthread_join(t, 0); puts("good"); return 0; }
`

const snake = `
import ctypes, hashlib, json, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading
def f(x): return x * x
if __name__ == "__main__":
    t = threading.Thread(target=f, args=(1,)); t.start(); t.join()
    with multiprocessing.Pool(2) as p: assert p.map(f, [1, 2, 3]) == [1, 4, 9]
    assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\n"
    sqlite3.connect(":memory:").execute("select 1")
    a, b = socket.socketpair(); a.send(b"x"); b.recv(1)
    cb = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1); assert cb(1) == 2
    tempfile.TemporaryFile().write(hashlib.sha256(b"").digest())
    try: socket.socket()
    except OSError: pass
    print("good")
`

const node = `
const { Worker, isMainThread } = require("worker_threads");
const { execSync } = require("child_process");
if (isMainThread) {
  require("crypto").randomBytes(8); require("zlib").gzipSync("x"); execSync("true");
  require("fs").promises.readFile("/etc/hostname").catch(() => {}).then(() =>
    new Worker(__filename).on("exit", () => console.log("good")));
}
`

const coffee = `
public class Main {
  public static void main(String[] a) throws Exception {
    Thread t = new Thread(() -> {}); t.start(); t.join();
    java.util.List.of(1, 2, 3).parallelStream().mapToInt(x -> x).sum();
    new ProcessBuilder("true").start().waitFor();
    try { new java.net.Socket("127.0.0.1", 1).close(); } catch (java.io.IOException e) { }
    System.out.println("good");
  }
}
`

// TestOrdinaryProgramsRun runs them under kill, where one call too many is the
// end. Each prints "good" last.
func TestOrdinaryProgramsRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"t.c": threads, "t.py": snake, "t.js": node, "Main.java": coffee} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	compiled := filepath.Join(dir, "t")
	if _, err := exec.LookPath("gcc"); err == nil {
		if out, err := exec.Command("gcc", "-pthread", "-o", compiled, filepath.Join(dir, "t.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, c := range []struct {
		name  string
		needs string
		argv  []string
		specs string
	}{
		{"shell", "sh", []string{"sh", "-c", "for i in 1 2 3; do echo $i; done | sort -r | head -1; ls -la / >l; cp l m; echo good"}, "default strict"},
		{"bash", "bash", []string{"bash", "-c", "diff <(seq 3) <(seq 3) && x=$(date) && echo good"}, "default strict"},
		{"perl", "perl", []string{"perl", "-e", `print "good\n"`}, "default strict"},
		{"tar and xz", "xz", []string{"sh", "-c", "echo x >f && tar cJf f.tar.xz f && rm f && tar xJf f.tar.xz && cat f && echo good"}, "default strict"},
		{"compiled", "gcc", []string{compiled}, "default strict"},
		{"gcc", "gcc", []string{"sh", "-c", "gcc -pthread -o u " + dir + "/t.c && ./u"}, "default strict"},
		{"python", "python3", []string{"python3", filepath.Join(dir, "t.py")}, "default strict"},
		{"node", "node", []string{"node", filepath.Join(dir, "t.js")}, "default strict"},
		{"java", "java", []string{"java", filepath.Join(dir, "Main.java")}, "default strict"},
		{"git", "git", []string{"sh", "-c", "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && echo good"}, "default strict"},
		{"go", "go", []string{"sh", "-c", "echo 'package main; func main() { println(1) }' >m.go && go run m.go && echo good"}, "default"},
		{"strace", "strace", []string{"sh", "-c", "strace -f -o o true && echo good"}, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skip(err)
			}
			for spec := range strings.FieldsSeq(c.specs) {
				f := compileBuiltin(t, spec, ActionKill, runtime.GOARCH)
				got, out := victim{Program: f.Program, Argv: c.argv}.run(t)
				if !strings.HasSuffix(got, "good") {
					t.Errorf("under %s: %s\n%s", spec, got, out)
				}
			}
		})
	}
}
