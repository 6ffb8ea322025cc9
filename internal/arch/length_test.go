package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// What fits in the head.
const (
	maxFile     = 400 // lines
	maxFunction = 80
)

// longer are the exceptions: a file, or FILE:FUNCTION.
var longer = map[string]string{
	"confine/rootfs/protect_data.go:DefaultProtect": "a table: one line for each protected path, with the reason",
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
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

func TestFilesAndFunctionsFitInTheHead(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range sources(t) {
		if n := s.set.File(s.file.Pos()).LineCount(); n > maxFile {
			needed[s.path] = true
			if longer[s.path] == "" {
				t.Errorf("%s has %d lines", s.path, n)
			}
		}
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
