package arch

import (
	"go/ast"
	"slices"
	"testing"
)

// sentences are methods and fields that hold what is said to people.
var sentences = []string{"Error", "Reason", "Why", "Details", "Detail", "Hint", "Remedy", "Notice", "Notices", "Msg", "Text"}

// deciding are functions of package strings whose answer decides something. To trim a text, or to
// split it into lines, is only to say it otherwise.
var deciding = []string{"Cut", "CutPrefix", "CutSuffix", "Contains", "EqualFold", "Fields", "HasPrefix", "HasSuffix", "Index", "LastIndex"}

// parsed are the exceptions: FILE:FUNCTION.
var parsed = map[string]string{
	"internal/config/resolve.go:firstLine": "a line is all that there is room for",
	"internal/cli/log.go:refusedFile":      "an option is told from a sentence, to put words around it",

	"child/internal/root/mount_linux.go:overlay":      "the text of a mount is data, and no sentence",
	"internal/seccomp/policyfile/oci_entry.go:filter": "the text of a value in a document is no sentence",
	"internal/seccomp/policyfile/oci_entry.go:kernel": "likewise",
}

// TestNoSentenceIsParsed: whoever rewords what people read changes no behaviour. What code needs is a field.
func TestNoSentenceIsParsed(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			key := s.path + ":" + f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 || !decides(call.Fun) || !ofSentence(call.Args[0]) {
					return true
				}
				needed[key] = true
				if parsed[key] == "" {
					t.Errorf("%s: a sentence is parsed: make what is needed of it a field", s.set.Position(call.Pos()))
				}
				return true
			})
		}
	}
	for key, why := range parsed {
		if !needed[key] {
			t.Errorf("%s needs no exception any more (%s)", key, why)
		}
	}
}

func decides(f ast.Expr) bool {
	of, ok := f.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := of.X.(*ast.Ident)
	return ok && pkg.Name == "strings" && slices.Contains(deciding, of.Sel.Name)
}

// ofSentence says whether such a field, or what such a method gives, is in an expression.
func ofSentence(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if of, ok := call.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "Text" {
				return false // a line that a bufio.Scanner has read
			}
		}
		if of, ok := n.(*ast.SelectorExpr); ok && slices.Contains(sentences, of.Sel.Name) {
			found = true
		}
		return !found
	})
	return found
}
