package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// What fits in the head.
const (
	maxFunction = 80 // lines
	maxFiles    = 20 // in a package, tests apart
	maxMethods  = 30 // of a type
	maxFields   = 20
)

// longer are the functions that may be longer: FILE:FUNCTION, and why.
var longer = map[string]string{
	"internal/protect/data.go:Default": "a table: the protected paths, by their reason",
}

// larger are the packages and types that may be larger, and why.
var larger = map[string]string{
	"status.Report fields":               "it is a document, with a field for each key",
	"internal/changes.diffChange fields": "likewise",
}

// tooLarge are those that are to become smaller, and what they had when the bounds were set. A number
// here only shrinks, and a line goes when its package or type is within the bounds.
var tooLarge = map[string]int{
	"internal/config.Policy fields": 25,
}

type source struct {
	path string // from the root, with slashes
	set  *token.FileSet
	file *ast.File
}

func (s *source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

// sources are all Go files that are written by hand and are no tests, of every platform.
func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(parsed) {
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			all = append(all, source{filepath.ToSlash(relative), set, parsed})
		}
		return nil
	})
	must.Do(t, err)
	if len(all) < 20 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

func TestFunctionsFitInTheHead(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || s.lines(f) <= maxFunction {
				continue
			}
			key := s.path + ":" + f.Name.Name
			needed[key] = true
			if longer[key] == "" {
				t.Errorf("%s has %d lines", key, s.lines(f))
			}
		}
	}
	for key, why := range longer {
		if !needed[key] {
			t.Errorf("%s needs no exception any more (%s)", key, why)
		}
	}
}

func TestPackagesAndTypesFitInTheHead(t *testing.T) {
	files, methods, fields := sizes(sources(t))
	over := map[string]bool{}
	for _, kind := range []struct {
		name string
		of   map[string]int
		most int
	}{{"files", files, maxFiles}, {"methods", methods, maxMethods}, {"fields", fields, maxFields}} {
		for of, n := range kind.of {
			key := of + " " + kind.name
			if n <= kind.most {
				continue
			}
			over[key] = true
			if most := max(tooLarge[key], kind.most); n > most && larger[key] == "" {
				t.Errorf("%s has %d %s, and may have %d", of, n, kind.name, most)
			}
		}
	}
	for key := range tooLarge {
		if !over[key] {
			t.Errorf("%q is within the bounds: its line can go", key)
		}
	}
	for key, why := range larger {
		if !over[key] {
			t.Errorf("%q needs no exception any more (%s)", key, why)
		}
	}
}

// sizes are the files of each package, and the methods and fields of each type. Where platforms have
// a type of the same name, methods of either count, and the fields of the one that has more.
func sizes(all []source) (files, methods, fields map[string]int) {
	files, methods, fields = map[string]int{}, map[string]int{}, map[string]int{}
	seen := map[string]bool{}
	for _, s := range all {
		dir := path.Dir(s.path)
		files[dir]++
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if of := receiver(n); of != "" && !seen[dir+"."+of+"."+n.Name.Name] {
					seen[dir+"."+of+"."+n.Name.Name] = true
					methods[dir+"."+of]++
				}
			case *ast.TypeSpec:
				if of, ok := n.Type.(*ast.StructType); ok {
					fields[dir+"."+n.Name.Name] = max(fields[dir+"."+n.Name.Name], fieldsOf(of))
				}
			}
			return true
		})
	}
	return files, methods, fields
}

// fieldsOf counts the fields; an embedded one has no name.
func fieldsOf(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}

// receiver is the name of the type that a function is a method of, or "".
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr: // of a generic type
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestSizes(t *testing.T) {
	const text = `package p
type A struct { a, b int; B; c struct { d, e, f int } }
type B[T any] struct {}
func (a A) One() {}
func (*A) Two() {}
func (b *B[T]) One() {}
func None() {}`
	set := token.NewFileSet()
	var all []source
	for _, name := range []string{"x/p/a_linux.go", "x/p/a_other.go"} {
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		must.Do(t, err)
		all = append(all, source{name, set, file})
	}
	files, methods, fields := sizes(all)
	if files["x/p"] != 2 || methods["x/p.A"] != 2 || methods["x/p.B"] != 1 || fields["x/p.A"] != 4 || fields["x/p.B"] != 0 || len(methods) != 2 {
		t.Errorf("%v %v %v", files, methods, fields)
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		said[dir] = said[dir] || s.file.Doc != nil && len(s.file.Doc.Text()) > 40
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}
