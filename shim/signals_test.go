package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A handler that called into a library while the main path held its lock wedged somebody else's judge. The shim has none to
// get wrong: it takes signals as PID 1 does, and Go's runtime handles its own.
func TestC29TheShimHandlesNoSignals(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		looked++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		must(t, err)
		for _, imported := range file.Imports {
			if path := imported.Path.Value; path == `"os/signal"` || path == `"C"` {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
	if looked < 5 {
		t.Errorf("only %d files were looked at", looked)
	}
}
