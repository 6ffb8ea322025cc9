package confine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// mostNames is how many names a reader of the package has to know at most.
const mostNames = 42

// One program uses every name and method, and compiles for every system.
func TestTheSameNamesOnEverySystem(t *testing.T) {
	const program = "testdata/whole/main.go"
	text, err := os.ReadFile(program)
	must.Do(t, err)
	for _, goos := range []string{"linux", "darwin", "windows"} {
		names := exported(t, goos)
		for name := range names {
			if !strings.Contains(string(text), name) {
				t.Errorf("%s has %s, and %s doesn't use it", goos, strings.Trim(name, ".("), program)
			}
		}
		if top := slices.DeleteFunc(slices.Collect(maps.Keys(names)), func(n string) bool { return !strings.HasPrefix(n, "confine.") }); len(top) > mostNames {
			t.Errorf("%s: %d names: %q", goos, len(top), top)
		}
		cmd := exec.Command("go", "build", "-o", os.DevNull, "./"+filepath.Dir(program))
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", goos, err, out)
		}
	}
}

// exported are the package's names on a system as a program says them: "confine.NAME", and ".METHOD(" of methods.
func exported(t *testing.T, goos string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	add := func(prefix, name, suffix string) {
		if ast.IsExported(name) && name != "Error" {
			names[prefix+name+suffix] = true
		}
	}
	list := exec.Command("go", "list", "-f", `{{join .GoFiles "\n"}}`, ".")
	list.Env = append(os.Environ(), "GOOS="+goos)
	out, err := list.Output()
	must.Do(t, err)
	for _, file := range strings.Fields(string(out)) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must.Do(t, err)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("confine.", d.Name.Name, "")
				} else if of := strings.TrimLeft(types.ExprString(d.Recv.List[0].Type), "*"); ast.IsExported(of) {
					add(".", d.Name.Name, "(")
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add("confine.", s.Name.Name, "")
					case *ast.ValueSpec:
						for _, n := range s.Names {
							add("confine.", n.Name, "")
						}
					}
				}
			}
		}
	}
	return names
}
