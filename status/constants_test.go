package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// constants reads the constants of a type from the source, in order, so that
// nobody has to keep a second list of them.
func constants[T ~string](t *testing.T, typeName string) []T {
	t.Helper()
	var all []T
	for _, file := range []string{"status.go", "ledger.go", "event.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must.Do(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
				return true
			}
			for _, v := range spec.Values {
				s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				must.Do(t, err)
				all = append(all, T(s))
			}
			return true
		})
	}
	if len(all) == 0 {
		t.Fatalf("no constants of type %s", typeName)
	}
	return all
}

func TestTheManualNamesEveryStatusAndCause(t *testing.T) {
	text, err := os.ReadFile("../docs/REPORT.md")
	must.Do(t, err)
	words := constants[string](t, "Status")
	for _, word := range append(words, constants[string](t, "Cause")...) {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("docs/REPORT.md doesn't name %s", word)
		}
	}
}
